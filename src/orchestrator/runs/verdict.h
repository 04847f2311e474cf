// SPDX-License-Identifier: Apache-2.0
// From what became of a run to what its record says: status, exit, error. Pure. What the program
// did is never our error, and the first cause wins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/execution.h"
#include "model/limits.h"
#include "model/outcome.h"
#include "policy/decide.h"

namespace cloister::orchestrator {

// Why a run was ended from outside; the first one stays.
enum class Cause : uint8_t {
  kNone,
  kCancelled,
  kNodeLost,
  kStopping,
  kSessionEnded,       // on request
  kSessionExpired,     // at its time
  kSessionMemory,      // at the memory limit of its sandbox
  kSessionLocks,       // for the locks on files of its sandbox
  kSessionQuota,       // its processes used more than a quota of processor time
  kSessionLost,        // with its sandbox's runner
  kHoldLost,           // the workspace that it was approved with was no longer held
  kRevoked,            // its agent may no longer do what its sandbox lets it do
  kCredential,         // the credential that began it is revoked or expired
  kSessionCredential,  // the same of its session's
};

// Where a workspace lies, and whether a larger one would lie elsewhere.
struct WorkspacePlace {
  bool on_disk = false;
  // Bytes of a disk_mb above which this runtime and node put a workspace on disk, which is then not
  // bounded by memory_mb; nothing where they never do.
  std::optional<uint64_t> disk_over = {};
};

// "the credential that <did it>, <id>, was revoked or has expired". A key stands for as long as
// the keys that it was rotated to, so it may be one of those.
std::string lostCredential(const std::string& did, const std::string& id);

// The limit of an error for want of processor time, by a quota.
inline constexpr std::string_view kCpuQuota = "cpu_seconds_per_hour";

// The sandbox's outcome → status, exit code, signal, usage, compile result and error. `cause`
// counts only where the program did not end first.
void applyOutcome(model::Execution& execution, const model::Outcome& outcome,
                  const model::Limits& limits, const WorkspacePlace& workspace, Cause cause);

// A fault of ours. `started`: the program had been started.
void applyFault(model::Execution& execution, const Error& fault, Cause cause, bool started);

// It ends for `cause` without an outcome.
void applyCause(model::Execution& execution, Cause cause);

void applyDenial(model::Execution& execution, const policy::Denied& denied);

// Notes on a run that went on: output over its bound, artifacts left out or lost. An error that is
// there already stays.
void noteTruncatedOutput(model::Execution& execution, uint64_t cap);
void noteLostArtifacts(model::Execution& execution, const std::string& reason);
void noteOverQuota(model::Execution& execution);
void noteTruncatedArtifacts(model::Execution& execution, uint64_t max_files, uint64_t max_bytes);

}  // namespace cloister::orchestrator
