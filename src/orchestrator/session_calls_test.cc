// SPDX-License-Identifier: Apache-2.0
// What a session bounds by itself: its scope.
#include <gmock/gmock.h>

#include "model/capability.h"
#include "orchestrator/session_fixture.h"
#include "orchestrator/session_scope.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using ::testing::Contains;
using ::testing::ElementsAre;

class SessionCallsTest : public SessionsTest {
 protected:
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
}

}  // namespace
}  // namespace cloister::orchestrator
