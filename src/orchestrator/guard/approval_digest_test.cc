// SPDX-License-Identifier: Apache-2.0
// Each member of a request changes the digest bound by an approval. The test fails if a later
// version adds a member that the table lacks.
#include <functional>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "model/session.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/runs/service_fixture.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;
using model::ExecRequest;

class ApprovalDigestTest : public ServiceTest {
 protected:
  void SetUp() override {
    ServiceTest::SetUp();
    languages_ = model::LanguageSet::load(CLOISTER_SOURCE_DIR "/languages").value();
  }
  std::string digest(const json::object& request, const std::string& session = "ses_1") {
    const auto bound = boundOf(base::toJson(request), session, languages_);
    EXPECT_TRUE(bound) << bound.error().message;
    return bound ? digestOf(*bound, "sha256:image") : "";
  }
  std::string digest(const ExecRequest& request) { return digest(model::toJsonObject(request)); }

  // A request with every possible member.
  ExecRequest whole() {
    ExecRequest made;
    made.run = request({"echo", "hello"});
    model::RunRequest& run = made.run;
    run.language = "python";
    run.image = "host";
    run.runtime = "process";
    run.tier = "Assisted";
    run.fresh = true;
    run.nested = true;
    run.input = "in";
    run.env = {{"A", "1"}};
    run.files = {{.path = "a.sh", .content = "echo a", .mode = 0644}};
    run.metadata = {{"task", "1"}};
    run.named_limits.set();
    run.approval = "ESC-2026-001";
    made.cwd = "/tmp";
    made.keep_input = true;
    made.kernel = "none";
    made.parent_id = "exec_1";
    made.terminal = model::TerminalSize{.cols = 80, .rows = 24};
    return made;
  }
};

using Change = std::function<void(ExecRequest&)>;

std::map<std::string, Change> changes() {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  return {
      {"args", [](auto& r) { r.run.args = {"x"}; }},
      {"artifacts", [](auto& r) { r.run.artifacts = {"*.txt"}; }},
      {"command", [](auto& r) { r.run.command = std::vector<std::string>{"echo", "evil"}; }},
      {"cpu_millis", [](auto& r) { r.run.limits.cpu_millis += 1; }},
      {"cpu_seconds", [](auto& r) { r.run.limits.cpu_time += Millis(1000); }},
      {"cwd", [](auto& r) { r.cwd = "/"; }},
      {"deps", [](auto& r) { r.run.deps = {"evil"}; }},
      {"disk_mb", [](auto& r) { r.run.limits.disk_bytes += kMiB; }},
      {"encoding", [](auto& r) { r.run.input = "\xff"; }},
      {"env", [](auto& r) { r.run.env["LD_PRELOAD"] = "x"; }},
      {"file_size_mb", [](auto& r) { r.run.limits.file_bytes += kMiB; }},
      {"files", [](auto& r) { r.run.files[0].mode = 0755; }},
      {"image", [](auto& r) { r.run.image = "other"; }},
      {"inodes", [](auto& r) { r.run.limits.inodes += 1; }},
      {"input", [](auto& r) { r.run.input = "other"; }},
      {"keep_input", [](auto& r) { r.keep_input = false; }},
      {"kernel", [](auto& r) { r.kernel = "python"; }},
      {"language", [](auto& r) { r.run.language = "bash"; }},
      {"max_output_bytes", [](auto& r) { r.run.limits.output_bytes += 1; }},
      {"memory_mb", [](auto& r) { r.run.limits.memory_bytes += kMiB; }},
      {"metadata", [](auto& r) { r.run.metadata["task"] = "2"; }},
      {"nested", [](auto& r) { r.run.nested = false; }},
      {"network_policy", [](auto& r) { r.run.network.tier = "full"; }},
      {"open_files", [](auto& r) { r.run.limits.open_files += 1; }},
      {"parent_id", [](auto& r) { r.parent_id = "exec_2"; }},
      {"pids", [](auto& r) { r.run.limits.pids += 1; }},
      {"runtime", [](auto& r) { r.run.runtime = "gvisor"; }},
      {"sandbox", [](auto& r) { r.run.fresh = false; }},
      {"tier", [](auto& r) { r.run.tier = "HumanApprove"; }},
      {"timeout_seconds", [](auto& r) { r.run.limits.wall += Millis(1000); }},
      {"tty", [](auto& r) { r.terminal = model::TerminalSize{.cols = 81, .rows = 24}; }},
  };
}

TEST_F(ApprovalDigestTest, EachMemberOfARequestIsInIt) {
  const ExecRequest base = whole();
  const std::string before = digest(base);
  const auto table = changes();
  // The name of the approval and the list of named limits do not affect the program.
  const std::set<std::string> unbound = {"approval", "named_limits"};
  for (const auto& member : model::toJsonObject(base)) {
    const std::string name(member.key());
    if (unbound.contains(name)) continue;
    const auto change = table.find(name);
    ASSERT_NE(change, table.end()) << name << " is not in the table of this test";
    ExecRequest changed = base;
    change->second(changed);
    EXPECT_NE(digest(changed), before) << name;
  }
}

TEST_F(ApprovalDigestTest, CodeContentAndNamesAreInIt) {
  ExecRequest code;
  code.run = request({});
  code.run.command = std::monostate();
  code.run.language = "python";
  code.run.code = "print(1)";
  ExecRequest other = code;
  other.run.code = "print(2)";
  EXPECT_NE(digest(code), digest(other));
  const ExecRequest base = whole();
  const Change parts[] = {[](auto& r) { r.run.files[0].content = "echo b"; },
                          [](auto& r) { r.run.files[0].path = "b.sh"; },
                          [](auto& r) { r.run.files.clear(); },
                          [](auto& r) { r.run.env["A"] = "2"; },
                          [](auto& r) { r.run.metadata["more"] = ""; },
                          [](auto& r) { r.run.metadata.clear(); }};
  for (const Change& change : parts) {
    ExecRequest changed = base;
    change(changed);
    EXPECT_NE(digest(changed), digest(base));
  }
  EXPECT_NE(digest(model::toJsonObject(base), "ses_1"), digest(model::toJsonObject(base), "ses_2"));
}

// A waiting call is bound to the tool shown to its approver. A call with an earlier approval is
// bound without the tool.
TEST_F(ApprovalDigestTest, TheToolIsInThatOfACallThatWaits) {
  ExecRequest call = whole();
  call.run.approval.clear();
  ExecRequest of_tool = call;
  of_tool.run.metadata["cloister.tool"] = "text.search";
  EXPECT_NE(digest(of_tool), digest(call));
  of_tool.run.approval = "ESC-2026-001";
  EXPECT_EQ(digest(of_tool), digest(call));
  of_tool.run.metadata["tool_type"] = "deploy";
  EXPECT_NE(digest(of_tool), digest(call));
}

TEST_F(ApprovalDigestTest, TheMetadataOfASessionAreInIt) {
  model::SessionRequest made;
  made.settings.metadata = {{"tools", "text.search"}};
  model::SessionRequest other = made;
  other.settings.metadata = {{"tools", "shell.execute"}};
  const auto of = [](const model::SessionRequest& request) {
    return digestOf(*boundOfSession(base::toJson(model::toJsonObject(request))), "sha256:image");
  };
  EXPECT_NE(of(made), of(other));
}

}  // namespace
}  // namespace cloister::orchestrator
