// SPDX-License-Identifier: Apache-2.0
#include "model/execution.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using enum Status;

constexpr Status kAll[] = {kQueued, kRunning,  kBlocked,   kCompleted,
                           kFailed, kTimedOut, kCancelled, kDenied};

TEST(Status, NamesGoBothWays) {
  for (const Status status : kAll) {
    EXPECT_EQ(statusFromName(statusName(status)), status);
  }
  EXPECT_EQ(statusName(kTimedOut), "timed_out");
  EXPECT_EQ(statusFromName("done"), std::nullopt);
  EXPECT_EQ(statusFromName(""), std::nullopt);
}

TEST(Status, ATerminalStateIsTheLast) {
  for (const Status from : kAll) {
    EXPECT_FALSE(mayBecome(from, from));
    for (const Status to : kAll) {
      if (isTerminal(from)) {
        EXPECT_FALSE(mayBecome(from, to));
      }
    }
  }
  EXPECT_TRUE(mayBecome(kQueued, kRunning));
  EXPECT_TRUE(mayBecome(kRunning, kCompleted));
  EXPECT_TRUE(mayBecome(kBlocked, kQueued));
  EXPECT_FALSE(mayBecome(kRunning, kQueued));
  EXPECT_FALSE(mayBecome(kQueued, kCompleted));
}

TEST(Signal, HasItsName) {
  EXPECT_EQ(signalName(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signalName(SIGKILL), "SIGKILL");
  EXPECT_EQ(signalName(34), "SIG34");
  EXPECT_EQ(signalName(-1), "SIG-1");
}

std::vector<std::string> keys(const json::object& object) {
  std::vector<std::string> names;
  for (const auto& member : object)
    names.emplace_back(member.key());
  return names;
}

TEST(ExecutionJson, HasTheContractsMembersInOrder) {
  Execution execution;
  execution.id = "exec_1";
  execution.status = kCompleted;
  execution.exit_code = 0;
  execution.out.bytes = "hi\n";
  execution.principal.tenant = "t";
  execution.created_at = 1'000'000'000'123'456;
  const json::object object = toJsonObject(execution);
  auto names = keys(object);
  ASSERT_GE(names.size(), 16U);
  names.resize(16);
  EXPECT_THAT(names,
              ::testing::ElementsAre("id", "status", "exit_code", "signal", "stdout", "stderr",
                                     "stdout_truncated", "stderr_truncated", "artifacts",
                                     "resource_usage", "provenance", "error", "principal",
                                     "created_at", "started_at", "finished_at"));
  EXPECT_EQ(object.at("exit_code"), json::value(0));
  EXPECT_TRUE(object.at("signal").is_null());
  EXPECT_EQ(object.at("stdout"), json::value("hi\n"));
  EXPECT_TRUE(object.at("error").is_null());
  EXPECT_EQ(object.at("created_at"), json::value("2001-09-09T01:46:40.123Z"));
  EXPECT_TRUE(object.at("started_at").is_null());
  EXPECT_FALSE(object.contains("stdout_encoding"));
  EXPECT_FALSE(object.contains("compile"));
  EXPECT_THAT(
      keys(object.at("resource_usage").as_object()),
      ::testing::ElementsAre("wall_ms", "cpu_ms", "max_rss_bytes", "io_read_bytes",
                             "io_write_bytes", "processes", "open_files", "disk_limit_bytes"));
  EXPECT_THAT(keys(object.at("principal").as_object()),
              ::testing::ElementsAre("tenant", "app", "agent", "user"));
  auto provenance = keys(object.at("provenance").as_object());
  provenance.resize(8);
  EXPECT_THAT(provenance,
              ::testing::ElementsAre("runtime", "node", "image_digest", "policy_id", "permit_id",
                                     "code_sha256", "output_sha256", "weakened"));
}

TEST(ExecutionJson, ShowsTheLimitsFromTheStart) {
  Execution execution;
  EXPECT_TRUE(toJsonObject(execution).at("limits").is_null());
  execution.limits = Limits{.wall = std::chrono::milliseconds(1'500), .pids = 7};
  const json::object limits = toJsonObject(execution).at("limits").as_object();
  EXPECT_EQ(limits.at("timeout_seconds"), json::value(1.5));
  EXPECT_EQ(limits.at("memory_mb"), json::value(256));
  EXPECT_EQ(limits.at("pids"), json::value(7));
}

TEST(ExecutionJson, ShowsTheUseOfTheNetwork) {
  Execution execution;
  EXPECT_EQ(base::toJson(toJsonObject(execution).at("network")),
            R"({"connections":0,"bytes_in":0,"bytes_out":0,"denied":[],"denied_left_out":0,)"
            R"("hint":null})");
  execution.network.connections = 2;
  execution.network.denied.emplace_back().host = "evil.test";
  execution.network.hint = "why";
  const json::object network = toJsonObject(execution).at("network").as_object();
  EXPECT_EQ(network.at("connections"), json::value(2));
  EXPECT_EQ(network.at("denied").at(0).at("host"), json::value("evil.test"));
  EXPECT_EQ(network.at("hint"), json::value("why"));
}

TEST(ExecutionJson, ShowsWhenACellLostItsState) {
  Execution execution;
  execution.cell = Cell{.kernel = "python", .number = 1};
  json::object object = toJsonObject(execution);
  EXPECT_EQ(base::toJson(object.at("cell")),
            R"({"kernel":"python","number":1,"state_lost":false})");
  execution.cell = {.kernel = "sh", .number = 2, .state_lost = true, .lost_before = true};
  object = toJsonObject(execution);
  EXPECT_EQ(object.at("cell").at("state_lost_when"), json::value("before"));
  EXPECT_TRUE(object.at("cell").at("state_lost_reason").is_null());
}

TEST(Usage, AnUnknownNumberOfProcessesStaysUnknown) {
  Usage all;
  all.add({.processes = 3});
  all.add({.processes = 2});
  EXPECT_EQ(all.processes, 3U);
  all.add({.processes = std::nullopt});
  all.add({.processes = 9});
  EXPECT_EQ(all.processes, std::nullopt);
  EXPECT_TRUE(toJsonObject(all).at("processes").is_null());
}

TEST(ExecutionJson, ShowsWhichArtifactWasCut) {
  Execution execution;
  execution.artifacts = {{"art_1", "a", 5, "", "", 0, 9}, {"art_2", "b", 5, "", ""}};
  const json::object object = toJsonObject(execution);
  const json::array& artifacts = object.at("artifacts").as_array();
  EXPECT_EQ(artifacts[0].at("truncated"), json::value(true));
  EXPECT_EQ(artifacts[0].at("full_size").to_number<int>(), 9);
  EXPECT_FALSE(artifacts[1].as_object().contains("truncated"));
}

TEST(ExecutionJson, ShowsErrorCompileSignalAndArtifacts) {
  Execution execution;
  execution.signal = "SIGSEGV";
  execution.error = RunError{std::string(error_type::kTimeout), "m", {{"limit", "x"}}, true};
  execution.compile = CompileResult{1, 20, "out", "\xff"};
  execution.artifacts = {{"art_1", "plot.png", 812, "image/png", "aa"}};
  execution.provenance.weakened = {"no cgroup"};
  const json::object object = toJsonObject(execution);
  EXPECT_EQ(object.at("signal"), json::value("SIGSEGV"));
  EXPECT_EQ(base::toJson(object.at("error")),
            R"({"type":"TIMEOUT","message":"m","details":{"limit":"x"},"retryable":true})");
  EXPECT_EQ(base::toJson(object.at("compile")), R"({"exit_code":1,"wall_ms":20,"stdout":"out",)"
                                                R"("stderr":"/w==","stderr_encoding":"base64"})");
  EXPECT_EQ(base::toJson(object.at("artifacts")),
            R"([{"id":"art_1","path":"plot.png","size":812,"content_type":"image/png",)"
            R"("sha256":"aa"}])");
  EXPECT_EQ(base::toJson(object.at("provenance").at("weakened")), R"(["no cgroup"])");
}

TEST(ExecutionJson, OutputThatIsNoTextIsBase64) {
  Execution execution;
  execution.out.bytes = std::string("\xff\0", 2);
  execution.err.bytes = "fine";
  const json::object object = toJsonObject(execution);
  EXPECT_EQ(object.at("stdout"), json::value("/wA="));
  EXPECT_EQ(object.at("stdout_encoding"), json::value("base64"));
  EXPECT_FALSE(object.contains("stderr_encoding"));
}

struct CutCase {
  std::string_view bytes;
  bool truncated;
  std::string_view shown;
  bool base64;
};

TEST(ExecutionJson, ACutInsideACharacterIsStillText) {
  const CutCase cases[] = {
      {"a\xc3", true, "a", false},          {"a\xe2\x82", true, "a", false},
      {"\xf0\x9f\x98", true, "", false},    {"a\xc3\xa9", true, "a\xc3\xa9", false},
      {"a\xc3", false, "YcM=", true},       {"\xff", true, "/w==", true},
      {"\x80\x80\x80", true, "gICA", true},
  };
  for (const CutCase& each : cases) {
    Execution execution;
    execution.out.bytes = each.bytes;
    execution.out.truncated = each.truncated;
    const json::object object = toJsonObject(execution);
    EXPECT_EQ(object.at("stdout").as_string(), each.shown) << base::toHex(each.bytes);
    EXPECT_EQ(object.contains("stdout_encoding"), each.base64) << base::toHex(each.bytes);
  }
}

}  // namespace
}  // namespace cloister::model
