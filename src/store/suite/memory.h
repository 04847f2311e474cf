// SPDX-License-Identifier: Apache-2.0
// Part of StoreSuite: the memory of sessions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "store/session_testing.h"

namespace cloister::store {

TEST_P(StoreSuite, MemoryIsKeptByteForByte) {
  const std::string session = memory::running(*store_);
  const std::string other = memory::running(*store_);
  const std::string text =
      "{ \"n\" : 123456789012345678901234567890.10 , \"t\":\"\\u00e9\xc3\xa9\"}";
  const auto first = memory::put(*store_, session, "a", text, {}, "acme", 10);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->key, "a");
  EXPECT_EQ(first->size, text.size());
  EXPECT_EQ(memory::get(*store_, session, "a"), text);
  const auto again = memory::put(*store_, session, "a", "7", {}, "acme", 20);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(std::pair(again->created_at, again->updated_at), std::pair(int64_t{10}, int64_t{20}));
  EXPECT_EQ(memory::get(*store_, session, "a"), "7");
  EXPECT_EQ(store_->memory().get(all_, other, "a").error().code, Code::kNotFound);
  ASSERT_TRUE(memory::remove(*store_, session, "a"));
  EXPECT_EQ(store_->memory().get(all_, session, "a").error().code, Code::kNotFound);
  EXPECT_EQ(memory::remove(*store_, session, "a").error().code, Code::kNotFound);
}

TEST_P(StoreSuite, AChangeOfMemoryHasItsAuditRowWithoutTheValue) {
  const std::string session = memory::running(*store_);
  const size_t before = auditAll().size();
  ASSERT_TRUE(memory::put(*store_, session, "plan", "\"Xylophonist\""));
  ASSERT_TRUE(memory::remove(*store_, session, "plan"));
  EXPECT_FALSE(memory::remove(*store_, session, "plan"));
  const auto entries = auditAll();
  ASSERT_EQ(entries.size(), before + 2) << "what was refused has no row";
  const model::AuditEvent& set = entries[before].event;
  EXPECT_EQ(set.action, "memory.set");
  EXPECT_EQ(set.subject, session);
  EXPECT_EQ(set.details, (base::json::object{{"key", "plan"}, {"size", 13}}));
  EXPECT_EQ(entries[before + 1].event.action, "memory.deleted");
  EXPECT_EQ(entries[before + 1].event.details, (base::json::object{{"key", "plan"}}));
}

TEST_P(StoreSuite, MemoryOfAnotherTenantIsAsIfThereWereNoSession) {
  const std::string session = memory::running(*store_);
  ASSERT_TRUE(memory::put(*store_, session, "a", "1"));
  const std::string none = "there is no session " + session;
  EXPECT_EQ(memory::get(*store_, session, "a", "rival"), none);
  EXPECT_EQ(memory::put(*store_, session, "b", "2", {}, "rival").error().message, none);
  EXPECT_EQ(memory::remove(*store_, session, "a", "rival").error().message, none);
  const auto listed = store_->memory().list(Scope::of(principal("rival")), {.session = session});
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().message, none);
  EXPECT_EQ(memory::keys(*store_, {.session = session}), std::vector<std::string>{"a"});
}

TEST_P(StoreSuite, MemoryIsListedByKey) {
  const std::string session = memory::running(*store_);
  for (const char* key : {"c", "a", "b", "B"})
    ASSERT_TRUE(memory::put(*store_, session, key, "null"));
  using Keys = std::vector<std::string>;
  EXPECT_EQ(memory::keys(*store_, {.session = session}), (Keys{"B", "a", "b", "c"}));
  EXPECT_EQ(memory::keys(*store_, {.session = session, .limit = 2}), (Keys{"B", "a"}));
  EXPECT_EQ(memory::keys(*store_, {.session = session, .limit = 2, .after_key = "a"}),
            (Keys{"b", "c"}));
}

TEST_P(StoreSuite, MemoryHasBounds) {
  const std::string session = memory::running(*store_);
  const model::MemoryBounds bounds{.keys = 2, .value_bytes = 10, .bytes = 12};
  ASSERT_TRUE(memory::put(*store_, session, "a", "1234567", bounds));
  ASSERT_TRUE(memory::put(*store_, session, "b", "12345", bounds)) << "12 bytes are not too many";
  const auto keys = memory::put(*store_, session, "c", "1", bounds);
  ASSERT_FALSE(keys);
  EXPECT_EQ(keys.error().code, Code::kQuota);
  EXPECT_NE(keys.error().message.find("key c"), std::string::npos);
  EXPECT_NE(keys.error().message.find("session.memory.max_keys"), std::string::npos);
  const auto bytes = memory::put(*store_, session, "b", "123456", bounds);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().code, Code::kQuota);
  EXPECT_NE(bytes.error().message.find("session.memory.max_bytes"), std::string::npos);
  EXPECT_EQ(memory::get(*store_, session, "b"), "12345");
  EXPECT_TRUE(memory::put(*store_, session, "a", "7654321", bounds)) << "it takes its own place";
  EXPECT_TRUE(memory::put(*store_, memory::running(*store_), "c", "1", bounds)) << "another's";
}

TEST_P(StoreSuite, MemoryOfAnEndedSessionStaysAsItIsUntilItsRecordGoes) {
  const std::string session = memory::running(*store_);
  const std::string living = memory::running(*store_);
  ASSERT_TRUE(memory::put(*store_, session, "a", "1"));
  ASSERT_TRUE(memory::put(*store_, session, "b", "2"));
  ASSERT_TRUE(memory::put(*store_, living, "a", "3"));
  ASSERT_TRUE(memory::end(*store_, session, 1'700'000'000'000'000));
  EXPECT_EQ(memory::get(*store_, session, "a"), "1");
  const auto late = memory::put(*store_, session, "a", "4");
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, Code::kConflict);
  EXPECT_TRUE(memory::remove(*store_, session, "b"));
  EXPECT_EQ(memory::keys(*store_, {.session = session}), std::vector<std::string>{"a"});
  const auto retained = testing::retain(*store_, {.delete_after_us = 1});
  ASSERT_TRUE(retained) << retained.error().message;
  EXPECT_EQ(retained->sessions, 1U);
  EXPECT_EQ(memory::get(*store_, session, "a"), "there is no session " + session);
  EXPECT_EQ(memory::get(*store_, living, "a"), "3");
}

}  // namespace cloister::store
