// SPDX-License-Identifier: Apache-2.0
// Access to a session's memory, by principal and time.
#include "orchestrator/sessions/session_memory.h"

#include <gmock/gmock.h>

#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class SessionMemoryTest : public SessionsTest {
 protected:
  void begin(const model::MemoryBounds& bounds = {}) {
    open();
    memory_ = std::make_unique<SessionMemory>(*sessions_, *store_, bounds);
  }
  Result<model::MemoryItem> set(const std::string& id, const std::string& key,
                                const std::string& json, const model::Principal& by = principal()) {
    return await(memory_->set(by, id, key, json));
  }
  std::string get(const std::string& id, const std::string& key,
                  const model::Principal& by = principal()) {
    const auto value = memory_->get(by, id, key);
    return value ? value->json : "error " + value.error().message;
  }
  static model::Principal with(model::Role role, const std::string& agent,
                               const std::string& tenant = "acme") {
    model::Principal by = principal(tenant);
    by.roles = role;
    by.agent = agent;
    return by;
  }

  std::unique_ptr<SessionMemory> memory_;
};

TEST_F(SessionMemoryTest, IsOfItsTenantAndItsAgentAlone) {
  begin();
  const std::string id = created();
  ASSERT_TRUE(set(id, "k", "1"));
  const std::string none = "there is no session " + id;
  for (const model::Principal& by :
       {principal("rival"), with(model::Role::kAgent, "other"), with(model::Role::kAgent, "")}) {
    EXPECT_EQ(get(id, "k", by), "error " + none);
    EXPECT_EQ(memory_->list(by, {.session = id}).error().message, none);
    EXPECT_EQ(set(id, "k", "2", by).error().code, Code::kNotFound);
    const auto removed = await(memory_->remove(by, id, "k"));
    EXPECT_EQ(removed.error().message, none);
  }
  EXPECT_EQ(get(id, "k", with(model::Role::kViewer, "other")), "1");
  EXPECT_EQ(get(id, "k", with(model::Role::kAdmin, "")), "1");
  const auto elsewhere = memory_->get(with(model::Role::kAdmin, "", "ops"), id, "k");
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, Code::kDenied);
  EXPECT_EQ(get(id, "k"), "1");
}

TEST_F(SessionMemoryTest, OutlivesTheSessionAsItIs) {
  begin();
  const std::string id = created();
  ASSERT_TRUE(set(id, "a", "1"));
  ASSERT_TRUE(set(id, "b", "2"));
  ASSERT_TRUE(end(id));
  EXPECT_EQ(get(id, "a"), "1");
  const auto late = set(id, "a", "3");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kConflict);
  EXPECT_TRUE(await(memory_->remove(principal(), id, "b")));
  const auto left = memory_->list(principal(), {.session = id});
  ASSERT_TRUE(left) << left.error().message;
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ(left->front().key, "a");
}

TEST_F(SessionMemoryTest, GoesAlongWhenTheSessionMoves) {
  offer_.runtimes = {"process", "gvisor"};
  begin();
  const std::string id = created();
  ASSERT_TRUE(set(id, "k", "1"));
  const auto moved = await(
      sessions_->move(principal(), id, {.runtime = "gvisor", .tier = "", .end_programs = false}));
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_EQ(get(id, "k"), "1");
  EXPECT_TRUE(set(id, "k", "2"));
}

TEST_F(SessionMemoryTest, RefusalsNameTheKeyAndTheBoundAndNoValue) {
  begin({.keys = 1, .value_bytes = 20, .bytes = 100});
  const std::string id = created();
  for (const std::string& key :
       {std::string(), std::string("-a"), std::string("."), std::string("a/b"), std::string("a b"),
        std::string("\xc3\xa9"), std::string(129, 'a')}) {
    const auto refused = set(id, key, "1");
    ASSERT_FALSE(refused) << key;
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_EQ(refused.error().field, "url.key");
  }
  const auto large = set(id, "k", "\"Xylophonist Xylophonist\"");
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, Code::kTooLarge);
  EXPECT_THAT(large.error().message,
              AllOf(HasSubstr("key k"), HasSubstr("session.memory.max_value_bytes"),
                    Not(HasSubstr("Xylo"))));
  for (const char* text : {"Xylophonist", "", "1 2", "{\"a\":1,\"a\":2}", "1e999", "[1,]"}) {
    const auto wrong = set(id, "k", text);
    ASSERT_FALSE(wrong) << text;
    EXPECT_EQ(wrong.error().code, Code::kInvalid);
    EXPECT_THAT(wrong.error().message,
                AllOf(HasSubstr("key k: the value must be JSON"), Not(HasSubstr("Xylo"))));
  }
  ASSERT_TRUE(set(id, std::string(128, 'a'), "1"));
  const auto full = set(id, "k", "1");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, Code::kQuota);
}

TEST_F(SessionMemoryTest, AChangeThatTheLedgerRefusesIsNone) {
  begin();
  const std::string id = created();
  ASSERT_TRUE(set(id, "k", "1"));
  store_->full = true;
  EXPECT_EQ(set(id, "k", "2").error().code, Code::kNoSpace);
  store_->full = false;
  EXPECT_EQ(get(id, "k"), "1");
}

}  // namespace
}  // namespace cloister::orchestrator
