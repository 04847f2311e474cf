// SPDX-License-Identifier: Apache-2.0
// A session's own bounds: its scope, the depth of its calls, and their rate.
#include <gmock/gmock.h>

#include "model/capability.h"
#include "orchestrator/core/rate_bucket.h"
#include "orchestrator/sessions/session_fixture.h"
#include "orchestrator/sessions/session_scope.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionCallsTest : public SessionsTest {
 protected:
  Result<model::Execution> call(const std::string& session, const std::string& parent,
                                const std::string& tenant = "acme") {
    model::ExecRequest wanted = program({"echo"});
    wanted.parent_id = parent;
    return await(sessions_->exec(principal(tenant), session, wanted, ""));
  }
  model::Execution fromInside(const std::string& session) {
    model::ExecRequest wanted = program({"echo"});
    wanted.from_inside = true;
    const auto made = await(sessions_->exec(principal(), session, wanted, ""));
    EXPECT_TRUE(made) << made.error().message;
    return made ? *made : model::Execution{};
  }
  static std::string textOf(const model::Execution& execution, std::string_view detail) {
    return execution.error ? base::toJson(execution.error->details.at(detail)) : "";
  }
};

TEST_F(SessionCallsTest, AProgramBeyondTheScopeIsDeniedWithARecord) {
  open();
  Asked wanted = asked();
  wanted.capabilities = {"file_read"};
  const std::string id = created(wanted);
  EXPECT_THAT(storedSession(id).capabilities, ElementsAre("file_read"));
  const auto denied = exec(id, {"echo"});
  ASSERT_TRUE(denied) << denied.error().message;
  EXPECT_EQ(denied->status, Status::kDenied);
  EXPECT_EQ(denied->error->type, "PERMISSION_DENIED");
  EXPECT_EQ(textOf(*denied, "missing"), R"(["command_execution"])");
  EXPECT_THAT(auditOf(denied->id), Contains("execution.denied"));
  model::ExecRequest reading = program({"echo"});
  reading.run.metadata = {{"cloister.tool", "t"}, {"cloister.capabilities", "file_read"}};
  const auto allowed = await(sessions_->exec(principal(), id, reading, ""));
  ASSERT_TRUE(allowed);
  EXPECT_NE(allowed->status, Status::kDenied);
}

TEST_F(SessionCallsTest, EachRequestForFilesNeedsACapability) {
  EXPECT_THAT(filesNeed({"read", "a"}), ElementsAre("file_read"));
  EXPECT_THAT(filesNeed({"mkdir", "a"}), ElementsAre("file_write"));
  EXPECT_THAT(filesNeed({"move", "a", "b"}), ElementsAre("file_delete", "file_write"));
  EXPECT_THAT(filesNeed({"connect", "80"}), ElementsAre("network"));
  EXPECT_EQ(filesNeed({"a new one"}).size(), model::kCapabilities.size());
  EXPECT_TRUE(onlyReads({"pack", "a"}));
  for (const char* changes : {"write", "move", "remove", "connect", "a new one"})
    EXPECT_FALSE(onlyReads({changes, "a"})) << changes;
}

TEST_F(SessionCallsTest, ACallNamesItsParent) {
  session_config_.max_call_depth = 2;
  open();
  const std::string id = created();
  const model::Execution top = ran(id, {"echo"});
  EXPECT_EQ(top.parent_id, "");
  EXPECT_EQ(top.depth, 0U);
  const auto first = call(id, top.id);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->parent_id, top.id);
  EXPECT_EQ(first->depth, 1U);
  const model::Execution second = ServiceTest::ended(call(id, first->id)->id);
  EXPECT_EQ(second.depth, 2U);
  const auto stored = store_->get(store::Scope::allTenants(), second.id);
  EXPECT_EQ(stored->parent_id, first->id);
  EXPECT_EQ(stored->depth, 2U);
  EXPECT_EQ(detailsOf(second.id, "execution.accepted").at("depth"), 2);
  const auto deep = call(id, second.id);
  ASSERT_TRUE(deep) << deep.error().message;
  EXPECT_EQ(deep->status, Status::kDenied);
  EXPECT_EQ(deep->depth, 3U);
  EXPECT_EQ(textOf(*deep, "reason"), "\"call_depth\"");
  EXPECT_THAT(deep->error->message, HasSubstr("session.max_call_depth"));
}

TEST_F(SessionCallsTest, AParentIsOfTheSameSession) {
  open();
  const std::string id = created();
  const std::string other = ran(created(), {"echo"}).id;
  for (const std::string& parent : {other, "exec_" + std::string(26, '0')}) {
    const auto refused = call(id, parent);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kInvalid);
    EXPECT_EQ(refused.error().field, "parent_id");
  }
}

TEST_F(SessionCallsTest, FromInsideTheServiceFindsTheParent) {
  open();
  const std::string id = created();
  const model::Execution top = ran(id, {"echo"});
  const std::string low = running(id, {"hold"});
  EXPECT_EQ(fromInside(id).parent_id, low);
  model::ExecRequest deeper = program({"hold"});
  deeper.parent_id = top.id;
  const std::string high = await(sessions_->exec(principal(), id, deeper, ""))->id;
  const model::Execution called = fromInside(id);
  EXPECT_EQ(called.parent_id, high) << "the deepest";
  EXPECT_EQ(called.depth, 2U);
  await(service_->cancel(principal(), high));
  await(service_->cancel(principal(), low));
  ServiceTest::ended(high);
  ServiceTest::ended(low);
  const model::Execution left = fromInside(id);
  EXPECT_EQ(left.parent_id, "");
  EXPECT_GE(left.depth, 2U) << "what an ended program left is no less deep";
}

TEST_F(SessionCallsTest, CallsHaveARate) {
  session_config_.calls_per_minute = 2;
  open();
  const std::string id = created();
  const auto first = exec(id, {"echo"}, "acme", "key-1");
  ASSERT_TRUE(first);
  EXPECT_EQ(exec(id, {"echo"}, "acme", "key-1")->id, first->id) << "which counts once";
  ASSERT_TRUE(exec(id, {"echo"}));
  const auto over = exec(id, {"echo"});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, Code::kQuota);
  EXPECT_THAT(over.error().message, HasSubstr("session.calls_per_minute"));
  EXPECT_GT(over.error().retry_after_seconds, 0);
  EXPECT_LE(over.error().retry_after_seconds, 30);
  EXPECT_EQ(exec(id, {"echo"}, "acme", "key-1")->id, first->id) << "it was accepted before";
  EXPECT_TRUE(exec(created(), {"echo"})) << "another session has its own";
}

TEST(RateBucket, ComesBackEvenlyOverAMinute) {
  const base::Monotonic start{std::chrono::hours(1)};
  RateBucket bucket;
  EXPECT_EQ(bucket.wait(2, start), 0);
  bucket.take(2, start);
  bucket.take(2, start);
  EXPECT_EQ(bucket.wait(2, start), 30);
  EXPECT_EQ(bucket.wait(2, start + std::chrono::seconds(29)), 1);
  EXPECT_EQ(bucket.wait(2, start + std::chrono::seconds(30)), 0);
  bucket.giveBack();
  EXPECT_EQ(bucket.wait(2, start), 0);
  EXPECT_FALSE(bucket.idle(start));
  EXPECT_TRUE(bucket.idle(start + std::chrono::seconds(61)));
}

}  // namespace
}  // namespace cloister::orchestrator
