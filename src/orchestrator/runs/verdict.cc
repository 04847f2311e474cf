// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/verdict.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

namespace cloister::orchestrator {
namespace {

namespace error_type = model::error_type;
namespace limit_name = model::limit_name;
using model::End;
using model::Execution;
using model::LimitHit;
using model::RunError;
using model::Status;

struct LimitText {
  std::string_view name;
  std::string_view what;
};

constexpr LimitText kLimits[] = {
    {limit_name::kWall, "run time"},        {limit_name::kCpuTime, "processor time"},
    {limit_name::kMemory, "memory"},        {limit_name::kDisk, "disk space"},
    {limit_name::kInodes, "file count"},    {limit_name::kFileSize, "file size"},
    {limit_name::kOpenFiles, "open files"}, {limit_name::kPids, "process count"},
    {limit_name::kOutput, "output"},        {limit_name::kFileLocks, "file lock"},
};

std::string_view titleOf(std::string_view limit) {
  const auto found = std::ranges::find(kLimits, limit, &LimitText::name);
  return found == std::end(kLimits) ? limit : found->what;
}

// "256 MiB", "1.5 s", "64 processes".
std::string amount(uint64_t value, std::string_view unit) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  if (unit == "bytes" && value >= kMiB && value % kMiB == 0) {
    return std::to_string(value / kMiB) + " MiB";
  }
  if (unit == "ms" && value % 1000 == 0) return std::to_string(value / 1000) + " s";
  if (unit == "ms" && value > 1000) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(value) / 1000);
    return text;
  }
  return std::to_string(value) + " " + std::string(unit);
}

base::json::object detailsOf(const LimitHit& hit) {
  base::json::object details = {
      {"limit", hit.limit}, {"value", hit.value}, {"used", hit.used}, {"unit", hit.unit}};
  if (!hit.isProbable()) return details;
  details["probable"] = true;
  if (hit.used == 0) details["used"] = nullptr;
  return details;
}

// The run's limits, and the place of its workspace.
struct Held {
  const model::Limits& limits;
  const WorkspacePlace& workspace;
};

// A workspace in memory has at most its share of the memory, however large disk_mb is.
std::string diskRemedy(const model::Limits& limits, const WorkspacePlace& workspace) {
  const uint64_t share = model::scratchBytes(
      {.memory_bytes = limits.memory_bytes, .disk_bytes = std::numeric_limits<uint64_t>::max()});
  if (workspace.on_disk || limits.disk_bytes < share) return "; raise disk_mb if it needs more";
  std::string text = "; the workspace is in memory and has three quarters of memory_mb";
  if (limits.disk_bytes > share) text += ", not disk_mb, " + amount(limits.disk_bytes, "bytes");
  text += ": raise memory_mb";
  if (limits.disk_bytes == share) text += " and disk_mb";
  if (workspace.disk_over) {
    text += ", or have it on disk, by a disk_mb above " +
            std::to_string(*workspace.disk_over >> 20) + " (workspace.disk.over_mb)";
  }
  return text;
}

std::string remedyOf(const LimitHit& hit, const Held& held) {
  if (hit.limit == limit_name::kFileLocks) {
    return "; hold fewer at once, or ask the operator for a larger node.file_locks";
  }
  if (hit.limit == limit_name::kDisk) return diskRemedy(held.limits, held.workspace);
  return "; raise " + hit.limit + " if it needs more";
}

RunError limitError(const LimitHit& hit, const Held& held) {
  const std::string limit =
      std::string(titleOf(hit.limit)) + " limit of " + amount(hit.value, hit.unit);
  const std::string used = " (used: " + amount(hit.used, hit.unit) + ")";
  std::string message =
      (hit.fatal ? "the program was ended at its " : "the program met its ") + limit + used;
  // A program may fill its workspace to the last byte without an error.
  const bool filled = hit.limit == limit_name::kDisk || hit.limit == limit_name::kInodes;
  if (!hit.fatal && !filled) message += ", saw an error and went on";
  if (hit.isProbable()) {
    message = "the program probably met its " + limit +
              (hit.fatal ? ": SIGXFSZ ended it, and no file of this size was found"
                         : ": it says so on stderr, and was not seen there");
  }
  message += remedyOf(hit, held);
  return {std::string(error_type::kResourceLimit), std::move(message), detailsOf(hit), false};
}

RunError timeoutError(const model::Outcome& outcome, const model::Limits& limits) {
  const auto found = std::ranges::find(outcome.limits, limit_name::kWall, &LimitHit::limit);
  const LimitHit hit =
      found != outcome.limits.end()
          ? *found
          : LimitHit{std::string(limit_name::kWall), static_cast<uint64_t>(limits.wall.count()),
                     static_cast<uint64_t>(std::max<int64_t>(outcome.usage.wall_ms, 0)), "ms",
                     true};
  const std::string who = outcome.compile_failed ? "the compiler" : "the program";
  const std::string remedy = outcome.compile_failed ? "; its time is set by the language"
                                                    : "; raise " + hit.limit + " if it needs more";
  return {
      std::string(error_type::kTimeout),
      who + " was still running after " + amount(hit.value, hit.unit) + " and was ended" + remedy,
      detailsOf(hit), false};
}

void set(Execution& execution, Status status, std::string_view type, std::string message,
         bool retryable) {
  execution.status = status;
  execution.error = RunError{std::string(type), std::move(message), {}, retryable};
}

void applyLimit(Execution& execution, const model::Outcome& outcome, const Held& held) {
  execution.status = Status::kFailed;
  if (!outcome.limits.empty()) {
    execution.error = limitError(outcome.limits.front(), held);
  } else {
    set(execution, Status::kFailed, error_type::kResourceLimit,
        "the program was ended at one of its limits", false);
  }
}

void applyEnd(Execution& execution, const model::Outcome& outcome, const Held& held, Cause cause) {
  switch (outcome.end) {
    case End::kExited:
    case End::kSignaled:
      execution.status = Status::kCompleted;
      if (outcome.end == End::kExited) execution.exit_code = outcome.exit_code;
      if (!outcome.limits.empty()) execution.error = limitError(outcome.limits.front(), held);
      return;
    case End::kTimedOut:
      execution.status = Status::kTimedOut;
      execution.error = timeoutError(outcome, held.limits);
      return;
    case End::kLimit:
      return applyLimit(execution, outcome, held);
    case End::kCancelled:
      return applyCause(execution, cause == Cause::kNone ? Cause::kCancelled : cause);
    case End::kStartFailed:
      return set(execution, Status::kFailed, error_type::kStartupFailed,
                 "the program could not be started: " + outcome.message, false);
    case End::kRunnerLost:
      if (cause != Cause::kNone) return applyCause(execution, cause);
      return set(execution, Status::kFailed, error_type::kRunnerLost,
                 "the sandbox's runner was lost: " + outcome.message, true);
  }
}

// The run has lost a permission or a hold.
void applyLostPermission(Execution& execution, Cause cause) {
  const bool hold = cause == Cause::kHoldLost;
  const bool revoked = cause == Cause::kRevoked;
  std::string why =
      "its session ended: the credential that made it, or a key that it was rotated to, was "
      "revoked or has expired";
  if (hold) {
    why = "its session's workspace could not be held to its end; the program may have run in part";
  } else if (revoked) {
    why =
        "a permission of its agent, or of another that used its session, ended while it ran; the "
        "program may have run in part";
  } else if (cause == Cause::kCredential) {
    why = lostCredential("began it", execution.principal.key_id);
    if (execution.started_at != 0) why += "; the program may have run in part";
  }
  set(execution, Status::kFailed, error_type::kPermissionDenied, std::move(why), false);
  auto& details = execution.error->details;
  details["reason"] = hold ? "workspace_not_held" : revoked ? "revoked" : "credential_revoked";
  if (cause == Cause::kCredential) details["credential"] = execution.principal.key_id;
}

}  // namespace

std::string lostCredential(const std::string& did, const std::string& id) {
  const std::string_view rotated =
      id.starts_with("key_") ? ", or a key that it was rotated to," : ",";
  return "the credential that " + did + ", " + id + std::string(rotated) +
         " was revoked or has expired";
}

void applyOutcome(Execution& execution, const model::Outcome& outcome, const model::Limits& limits,
                  const WorkspacePlace& workspace, Cause cause) {
  execution.usage = outcome.usage;
  execution.compile = outcome.compile;
  if (outcome.signal != 0) execution.signal = model::signalName(outcome.signal);
  applyEnd(execution, outcome, {limits, workspace}, cause);
}

void applyFault(Execution& execution, const Error& fault, Cause cause, bool started) {
  if (cause != Cause::kNone) return applyCause(execution, cause);
  if (fault.code == Code::kUnavailable) return applyCause(execution, Cause::kNodeLost);
  if (started) {
    return set(execution, Status::kFailed, error_type::kInternal, fault.message, true);
  }
  const bool retryable = fault.code != Code::kUnsupported && fault.code != Code::kDenied;
  set(execution, Status::kFailed, error_type::kStartupFailed, fault.message, retryable);
}

void applyCause(Execution& execution, Cause cause) {
  switch (cause) {
    case Cause::kNone:
      return set(execution, Status::kFailed, error_type::kInternal, "the run ended unexplained",
                 true);
    case Cause::kCancelled:
      return set(execution, Status::kCancelled, error_type::kCancelled,
                 "the run was cancelled on request", false);
    case Cause::kNodeLost:
      return set(execution, Status::kFailed, error_type::kNodeLost,
                 "the node that ran it was lost; the program may have run in part", true);
    case Cause::kStopping:
      return set(execution, Status::kFailed, error_type::kServerRestart,
                 "the service was stopped while it ran; the program may have run in part", true);
    case Cause::kSessionEnded:
      return set(execution, Status::kCancelled, error_type::kCancelled,
                 "its session was ended on request", false);
    case Cause::kSessionExpired:
      set(execution, Status::kTimedOut, error_type::kTimeout,
          "its session's time was over while it ran; renew the session in time, or ask for a "
          "longer ttl_seconds",
          false);
      execution.error->details["limit"] = "ttl";
      return;
    case Cause::kSessionMemory:
      set(execution, Status::kFailed, error_type::kResourceLimit,
          "its session's sandbox was ended at its memory limit; make the session with a larger "
          "memory_mb",
          false);
      execution.error->details["limit"] = limit_name::kMemory;
      return;
    case Cause::kSessionLocks:
      set(execution, Status::kFailed, error_type::kResourceLimit,
          "its session's sandbox was ended for holding too many locks on files at once", false);
      execution.error->details["limit"] = limit_name::kFileLocks;
      return;
    case Cause::kSessionQuota:
      set(execution, Status::kFailed, error_type::kQuotaExceeded,
          "its session was ended: a quota of processor time was used up, and processes that no "
          "execution waits for went on in the session",
          false);
      execution.error->details["limit"] = kCpuQuota;
      return;
    case Cause::kSessionLost:
      return set(execution, Status::kFailed, error_type::kRunnerLost,
                 "its session's sandbox was lost; the program may have run in part", true);
    case Cause::kHoldLost:
    case Cause::kRevoked:
    case Cause::kCredential:
    case Cause::kSessionCredential:
      return applyLostPermission(execution, cause);
  }
}

void applyDenial(Execution& execution, const policy::Denied& denied) {
  std::string message = denied.reason;
  if (!denied.remedy.empty()) message += "; " + denied.remedy;
  const auto type =
      denied.for_approval ? error_type::kApprovalRequired : error_type::kPermissionDenied;
  set(execution, Status::kDenied, type, std::move(message), denied.unavailable);
  if (!denied.rule.empty()) execution.error->details["rule"] = denied.rule;
  if (denied.unavailable) execution.error->details["reason"] = "policy_unavailable";
}

void noteTruncatedOutput(Execution& execution, uint64_t cap) {
  if (execution.error || (!execution.out.truncated && !execution.err.truncated)) return;
  const bool is_out = execution.out.truncated;
  const uint64_t total = is_out ? execution.out.total : execution.err.total;
  const LimitHit hit{std::string(limit_name::kOutput), cap, total, "bytes", false};
  const std::string stream = is_out ? "stdout" : "stderr";
  const model::KeptOutput& kept = is_out ? execution.out : execution.err;
  const uint64_t stored = model::artifactBytes(execution, kept);
  std::string rest = "; raise " + hit.limit;
  if (stored >= total) {
    rest += ", or fetch the artifact " + kept.artifact + ", which is the whole of it";
  } else if (stored > 0) {
    rest += ", or fetch the artifact " + kept.artifact + ", which is the first " +
            amount(stored, "bytes") + " (run.output_artifact_bytes): the rest is lost";
  }
  RunError error{std::string(error_type::kOutputLimit),
                 "only the first " + amount(cap, "bytes") + " of the " + amount(total, "bytes") +
                     " written to " + stream + " are in the result" + rest,
                 detailsOf(hit), false};
  error.details["stream"] = stream;
  execution.error = std::move(error);
}

void noteLostArtifacts(Execution& execution, const std::string& reason) {
  if (execution.error) return;
  execution.error = RunError{std::string(error_type::kInternal),
                             "the program ended, but not all it left could be stored: " + reason,
                             {},
                             true};
}

void noteOverQuota(Execution& execution) {
  if (execution.error) return;
  execution.error =
      RunError{std::string(error_type::kQuotaExceeded),
               "not all artifacts were kept: the tenant has no room left for them; delete some "
               "(cloister artifact rm), or raise artifacts.quota_mb or artifacts.quota_count",
               {{"limit", "artifacts"}},
               false};
}

void noteWithheldArtifact(Execution& execution, const std::string& path,
                          const std::string& secret) {
  if (execution.error) return;
  execution.error = RunError{std::string(error_type::kPermissionDenied),
                             "artifact " + path + " was not kept: it has the secret " + secret +
                                 "; write it without, or narrow the globs in artifacts",
                             {{"path", path}, {"secret", secret}},
                             false};
}

void noteRefusedText(Execution& execution, bool artifact, const std::string& where,
                     const std::string& rule) {
  if (execution.error) return;
  const std::string what =
      artifact ? "artifact " + where + " was not kept" : "the rest of " + where + " was not kept";
  execution.error = RunError{
      std::string(error_type::kPermissionDenied),
      what + ": it has text that the rule " + rule + " refuses (dlp.rules); leave the text out",
      {{artifact ? "path" : "stream", where}, {"rule", "dlp." + rule}},
      false};
}

void noteTruncatedArtifacts(Execution& execution, uint64_t max_files, uint64_t max_bytes) {
  if (execution.error) return;
  execution.error =
      RunError{std::string(error_type::kResourceLimit),
               "not all artifacts were kept: at most " + std::to_string(max_files) + " files and " +
                   amount(max_bytes, "bytes") + " are; narrow the globs in artifacts",
               {{"limit", "artifacts"}, {"value", max_files}, {"unit", "files"}},
               false};
}

}  // namespace cloister::orchestrator
