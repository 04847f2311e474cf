// SPDX-License-Identifier: Apache-2.0
// A session's files: requests on their way in, answers on their way out.
#include <algorithm>

#include <gmock/gmock.h>

#include "orchestrator/sessions/session_fixture.h"

namespace cloister::orchestrator {
namespace {

using testing::Contains;
using testing::Not;

class SessionFilesTest : public SessionsTest {
 protected:
  using CallPtr = std::shared_ptr<FileCall>;

  Result<CallPtr> ask(const std::string& id, FileRequest request,
                      const std::string& tenant = "acme") {
    return await(sessions_->files(principal(tenant), id, std::move(request)));
  }
  Result<> write(const std::string& id, const std::string& path, const std::string& bytes) {
    const CallPtr call = TRY(ask(id, {{"write", path, ""}, true, "file.written"}));
    for (size_t at = 0; at < bytes.size(); at += 50'000)
      TRY(await(call->send(bytes.substr(at, 50'000))));
    TRY(await(call->send("")));
    return await(call->finish());
  }
  std::ptrdiff_t rowsOf(const std::string& id, const std::string& action) {
    return std::ranges::count(auditOf(id), action);
  }
  Result<std::string> read(const std::string& id, const std::string& path) {
    const CallPtr call = TRY(ask(id, {{"read", path, "0", "999999999"}, false, ""}));
    TRY(await(call->entry()));
    std::string all;
    for (std::string piece = TRY(await(call->read())); !piece.empty();
         piece = TRY(await(call->read())))
      all += piece;
    return all;
  }
};

TEST_F(SessionFilesTest, CarriesFilesBothWays) {
  open();
  const std::string id = created();
  const std::string large(1'000'000, 'x');
  ASSERT_TRUE(write(id, "file", large + "end"));
  EXPECT_EQ(read(id, "file").value(), large + "end");
  EXPECT_EQ(ran(id, {"show", "file"}).out.total, 1'000'003U);
  const auto call = ask(id, {{"list", "", "1", "9"}, false, ""}).value();
  const auto first = await(call->next()).value();
  EXPECT_EQ(std::get<wire::files::Entry>(*first).path, "file");
  EXPECT_TRUE(std::holds_alternative<wire::files::EndOfEntries>(*await(call->next()).value()));
  EXPECT_FALSE(await(call->next()).value());
}

TEST_F(SessionFilesTest, SaysWhatTheFileServerSays) {
  open();
  const std::string id = created();
  EXPECT_EQ(read(id, "gone").error().code, Code::kNotFound);
  const auto call = ask(id, {{"append", "file", "3"}, true, "file.written"}).value();
  std::ignore = await(call->send("x"));
  std::ignore = await(call->send(""));
  EXPECT_EQ(await(call->finish()).error().code, Code::kNotFound);
  EXPECT_THAT(auditOf(id), Not(Contains("file.written"))) << "nothing was";
  ASSERT_TRUE(write(id, "file", "x"));
  EXPECT_THAT(auditOf(id), Contains("file.written"));
  EXPECT_EQ(detailsOf(id, "file.written")["arguments"].as_array().at(0).as_string(), "file");
}

TEST_F(SessionFilesTest, IsDoneOnlyWithItsAuditRow) {
  open();
  const std::string id = created();
  store_->full = true;
  EXPECT_EQ(write(id, "file", "x").error().code, Code::kNoSpace);
  store_->full = false;
}

TEST_F(SessionFilesTest, OneThatIsGivenUpLeavesNothingRunning) {
  open();
  const std::string id = created();
  {
    const auto call = ask(id, {{"write", "file", ""}, true, "file.written"}).value();
    ASSERT_TRUE(await(call->send("half")));
    EXPECT_EQ(shown(id).running, 1U);
  }
  runUntil([&] { return shown(id).running == 0; });
  EXPECT_EQ(read(id, "file").error().code, Code::kNotFound);
}

// Files before the failure stay.
TEST_F(SessionFilesTest, AnArchiveThatFailsHasItsAuditRow) {
  open();
  const std::string id = created();
  const auto call = ask(id, {{"unpack", "dir"}, true, "file.unpacked"}).value();
  ASSERT_TRUE(await(call->send("no archive")));
  ASSERT_TRUE(await(call->send("")));
  EXPECT_FALSE(await(call->finish()));
  EXPECT_EQ(rowsOf(id, "file.unpacked"), 1);
  EXPECT_FALSE(detailsOf(id, "file.unpacked")["incomplete"].as_string().empty());
}

TEST_F(SessionFilesTest, OneThatBreaksOffHasItsAuditRowWhereItsPartStays) {
  open();
  const std::string id = created();
  ASSERT_TRUE(write(id, "file", "old"));
  for (const FileRequest& request : {FileRequest{{"unpack", "dir"}, true, "file.unpacked"},
                                     {{"append", "file", "3"}, true, "file.appended"},
                                     {{"write", "file", ""}, true, "file.replaced"}}) {
    const auto call = ask(id, request).value();
    ASSERT_TRUE(await(call->send("half")));
  }
  runUntil([&] { return shown(id).running == 0; });
  for (const std::string action : {"file.unpacked", "file.appended"}) {
    ASSERT_EQ(rowsOf(id, action), 1) << action;
    EXPECT_EQ(detailsOf(id, action)["incomplete"], "the client broke it off");
  }
  EXPECT_EQ(rowsOf(id, "file.replaced"), 0) << "nothing was";
  EXPECT_FALSE(detailsOf(id, "file.written").contains("incomplete"));
}

// A stalled reader must not delay the session's end.
TEST_F(SessionFilesTest, EndsWithItsSession) {
  open();
  const std::string id = created();
  ASSERT_TRUE(write(id, "file", std::string(1'000'000, 'x')));
  const auto reads = ask(id, {{"read", "file", "0", "999999999"}, false, ""}).value();
  ASSERT_TRUE(await(reads->entry()));
  const auto writes = ask(id, {{"write", "other", ""}, true, "file.written"}).value();
  const auto began = base::monotonicNow();
  ASSERT_TRUE(await(sessions_->end(principal(), id)));
  EXPECT_LT(base::monotonicNow() - began, session_config_.patience.tear_down);
  EXPECT_EQ(await(writes->finish()).error().code, Code::kConflict);
  EXPECT_EQ(ask(id, {{"stat", "file"}, false, ""}).error().code, Code::kConflict);
}

TEST_F(SessionFilesTest, CountAmongItsPrograms) {
  session_config_.max_execs = 1;
  open();
  const std::string id = created();
  const auto call = ask(id, {{"write", "file", ""}, true, "file.written"}).value();
  EXPECT_EQ(ask(id, {{"stat", "file"}, false, ""}).error().code, Code::kQuota);
  EXPECT_EQ(exec(id, {"echo"}).error().code, Code::kQuota);
}

TEST_F(SessionFilesTest, AreItsTenantsOnly) {
  open();
  const std::string id = created();
  EXPECT_EQ(ask(id, {{"stat", "file"}, false, ""}, "other").error().code, Code::kNotFound);
  EXPECT_EQ(ask("ses_none", {{"stat", "file"}, false, ""}).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace cloister::orchestrator
