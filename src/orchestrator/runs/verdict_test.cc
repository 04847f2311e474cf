// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/verdict.h"

#include <gmock/gmock.h>

namespace cloister::orchestrator {
namespace {

using model::End;
using model::Execution;
using model::Outcome;
using model::Status;
using testing::EndsWith;
using testing::HasSubstr;

Execution verdict(const Outcome& outcome, Cause cause = Cause::kNone) {
  Execution execution;
  applyOutcome(execution, outcome, {}, {}, cause);
  return execution;
}

Outcome ending(End end) {
  Outcome outcome;
  outcome.end = end;
  return outcome;
}

Execution fault(Code code, Cause cause, bool started) {
  Execution execution;
  applyFault(execution, {code, "doing it: cause", {}}, cause, started);
  return execution;
}

TEST(Verdict, AProgramThatEndedIsCompleted) {
  Outcome outcome = ending(End::kExited);
  outcome.exit_code = 3;
  EXPECT_EQ(verdict(outcome).status, Status::kCompleted);
  EXPECT_EQ(verdict(outcome).exit_code, 3);
  EXPECT_FALSE(verdict(outcome).error);
  outcome = ending(End::kSignaled);
  outcome.signal = 11;
  EXPECT_EQ(verdict(outcome).status, Status::kCompleted);
  EXPECT_EQ(verdict(outcome).signal, "SIGSEGV");
  EXPECT_FALSE(verdict(outcome).exit_code);
}

TEST(Verdict, CallsAGuessProbable) {
  const auto met = [](uint64_t used) {
    Outcome outcome = ending(End::kExited);
    outcome.exit_code = 1;
    outcome.limits = {{"open_files", 64, used, "files", false}};
    return *verdict(outcome).error;
  };
  EXPECT_EQ(base::toJson(met(64).details),
            R"({"limit":"open_files","value":64,"used":64,"unit":"files"})");
  EXPECT_EQ(base::toJson(met(3).details),
            R"({"limit":"open_files","value":64,"used":3,"unit":"files","probable":true})");
  EXPECT_TRUE(met(0).details.at("used").is_null()) << "nobody looked";
  EXPECT_TRUE(met(3).message.starts_with("the program probably met its open files limit of 64"));
  EXPECT_TRUE(met(64).message.starts_with("the program met its open files limit of 64"));
}

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(Verdict, CallsAFullWorkspaceThatNobodySawProbable) {
  Outcome outcome = ending(End::kExited);
  outcome.exit_code = 1;
  outcome.limits = {{"disk_mb", 20 * kMiB, kMiB, "bytes", false}};
  const Execution execution = verdict(outcome);
  EXPECT_TRUE(execution.error->message.starts_with(
      "the program probably met its disk space limit of 20 MiB: it says so on stderr"));
  EXPECT_EQ(execution.error->details.at("probable"), true);
}

TEST(Verdict, CallsASignalWithoutAFileOfTheSizeProbable) {
  Outcome outcome = ending(End::kLimit);
  outcome.signal = 25;
  outcome.limits = {{"file_size_mb", kMiB, 1024, "bytes", true}};
  const Execution execution = verdict(outcome);
  EXPECT_EQ(execution.error->message,
            "the program probably met its file size limit of 1 MiB: SIGXFSZ ended it, and no file "
            "of this size was found; raise file_size_mb if it needs more");
  EXPECT_EQ(execution.error->details.at("used"), 1024);
  outcome.limits.front().used = kMiB;
  EXPECT_TRUE(verdict(outcome).error->message.starts_with(
      "the program was ended at its file size limit of 1 MiB (used: 1 MiB)"));
}

std::string fullDisk(uint64_t disk_mb, uint64_t held_mb, const WorkspacePlace& workspace) {
  Outcome outcome = ending(End::kExited);
  outcome.limits = {{"disk_mb", held_mb * kMiB, held_mb * kMiB, "bytes", false}};
  Execution execution;
  applyOutcome(execution, outcome, {.disk_bytes = disk_mb * kMiB}, workspace, Cause::kNone);
  return execution.error->message;
}

TEST(Verdict, AFullWorkspaceNamesTheKnobThatHelps) {
  const WorkspacePlace no_disks;
  const WorkspacePlace in_memory{.on_disk = false, .disk_over = 1024 * kMiB};
  constexpr std::string_view kMet = "the program met its disk space limit of ";
  constexpr std::string_view kRaiseDisk = "; raise disk_mb if it needs more";
  EXPECT_EQ(fullDisk(1024, 192, in_memory),
            std::string(kMet) +
                "192 MiB (used: 192 MiB); the workspace is in memory and "
                "has three quarters of memory_mb, not disk_mb, 1024 MiB: raise memory_mb, or have "
                "it on disk, by a disk_mb above 1024 (workspace.disk.over_mb)");
  EXPECT_THAT(fullDisk(1024, 192, no_disks), EndsWith("raise memory_mb")) << "it has no disks";
  EXPECT_THAT(fullDisk(192, 192, no_disks), EndsWith("raise memory_mb and disk_mb"));
  EXPECT_EQ(fullDisk(100, 100, in_memory),
            std::string(kMet) + "100 MiB (used: 100 MiB)" + std::string(kRaiseDisk));
  // A file system on disk reserves a part for itself.
  EXPECT_THAT(fullDisk(2048, 2004, {.on_disk = true, .disk_over = 1024 * kMiB}),
              EndsWith(kRaiseDisk));
}

TEST(Verdict, ALimitNamesItselfItsUseAndTheRemedy) {
  Outcome outcome = ending(End::kLimit);
  outcome.signal = 9;
  outcome.limits = {{"memory_mb", 268'435'456, 268'435'456, "bytes", true}};
  const Execution execution = verdict(outcome);
  EXPECT_EQ(execution.status, Status::kFailed);
  EXPECT_EQ(execution.signal, "SIGKILL");
  EXPECT_EQ(execution.error->type, "RESOURCE_LIMIT_EXCEEDED");
  EXPECT_EQ(execution.error->message,
            "the program was ended at its memory limit of 256 MiB (used: 256 MiB); raise memory_mb "
            "if it needs more");
  EXPECT_EQ(execution.error->details.at("limit"), "memory_mb");
  EXPECT_EQ(execution.error->details.at("value"), 268'435'456);
  EXPECT_EQ(execution.error->details.at("used"), 268'435'456);
  EXPECT_FALSE(execution.error->retryable);
}

TEST(Verdict, ALimitThatDidNotEndItIsTold) {
  Outcome outcome = ending(End::kExited);
  outcome.exit_code = 1;
  outcome.limits = {{"pids", 64, 64, "processes", false}};
  const Execution execution = verdict(outcome);
  EXPECT_EQ(execution.status, Status::kCompleted);
  EXPECT_EQ(execution.exit_code, 1);
  EXPECT_EQ(execution.error->type, "RESOURCE_LIMIT_EXCEEDED");
  EXPECT_THAT(execution.error->message, HasSubstr("64 processes"));
  EXPECT_THAT(execution.error->message, HasSubstr("went on"));
}

TEST(Verdict, ATimeoutTellsTheLimitEvenIfTheSandboxDidNot) {
  Outcome outcome = ending(End::kTimedOut);
  outcome.usage.wall_ms = 30'002;
  const Execution execution = verdict(outcome);
  EXPECT_EQ(execution.status, Status::kTimedOut);
  EXPECT_EQ(execution.error->type, "TIMEOUT");
  EXPECT_EQ(execution.error->details.at("limit"), "timeout_seconds");
  EXPECT_EQ(execution.error->details.at("value"), 30'000);
  EXPECT_EQ(execution.error->details.at("used"), 30'002);
  outcome.compile_failed = true;
  EXPECT_THAT(verdict(outcome).error->message, HasSubstr("the compiler"));
}

TEST(Verdict, TheFirstCauseWins) {
  EXPECT_EQ(verdict(ending(End::kExited), Cause::kCancelled).status, Status::kCompleted);
  EXPECT_EQ(verdict(ending(End::kTimedOut), Cause::kNodeLost).status, Status::kTimedOut);
  EXPECT_EQ(verdict(ending(End::kCancelled), Cause::kCancelled).status, Status::kCancelled);
  EXPECT_EQ(verdict(ending(End::kCancelled), Cause::kNodeLost).error->type, "NODE_LOST");
  EXPECT_EQ(verdict(ending(End::kCancelled), Cause::kStopping).error->type, "SERVER_RESTART");
  EXPECT_EQ(verdict(ending(End::kRunnerLost), Cause::kNone).error->type, "RUNNER_LOST");
  EXPECT_EQ(verdict(ending(End::kRunnerLost), Cause::kCancelled).status, Status::kCancelled);
}

TEST(Verdict, AFaultOfOursIsNamedByWhereItHappened) {
  EXPECT_EQ(fault(Code::kUnavailable, Cause::kNone, true).error->type, "NODE_LOST");
  EXPECT_EQ(fault(Code::kInternal, Cause::kNone, true).error->type, "INTERNAL");
  EXPECT_EQ(fault(Code::kInternal, Cause::kNone, false).error->type, "SANDBOX_STARTUP_FAILED");
  EXPECT_TRUE(fault(Code::kInternal, Cause::kNone, false).error->retryable);
  EXPECT_FALSE(fault(Code::kUnsupported, Cause::kNone, false).error->retryable);
  EXPECT_EQ(fault(Code::kUnavailable, Cause::kCancelled, true).status, Status::kCancelled);
  EXPECT_EQ(fault(Code::kUnavailable, Cause::kStopping, true).error->type, "SERVER_RESTART");
}

TEST(Verdict, ADenialCarriesReasonRuleAndRemedy) {
  Execution execution;
  applyDenial(execution, {"no-net", "the network is closed", "use tier none"});
  EXPECT_EQ(execution.status, Status::kDenied);
  EXPECT_EQ(execution.error->type, "PERMISSION_DENIED");
  EXPECT_EQ(execution.error->message, "the network is closed; use tier none");
  EXPECT_EQ(execution.error->details.at("rule"), "no-net");
}

TEST(Verdict, NotesNeverReplaceAnError) {
  Execution execution;
  execution.out.truncated = true;
  execution.out.total = 5000;
  noteTruncatedOutput(execution, 1000);
  ASSERT_TRUE(execution.error);
  EXPECT_EQ(execution.error->type, "OUTPUT_LIMIT");
  EXPECT_EQ(execution.error->details.at("stream"), "stdout");
  noteTruncatedArtifacts(execution, 64, 1000);
  noteLostArtifacts(execution, "disk");
  EXPECT_EQ(execution.error->type, "OUTPUT_LIMIT");
}

}  // namespace
}  // namespace cloister::orchestrator
