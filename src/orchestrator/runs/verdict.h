// SPDX-License-Identifier: Apache-2.0
// From a run's outcome to its record: status, exit, error. Pure. The program's outcome is never our
// error, and the first cause wins.
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

// The cause of a run's end from outside; the first cause stays.
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
  kHoldLost,           // the hold on the approved workspace ended
  kRevoked,            // the agent lost a permission that its sandbox grants
  kCredential,         // the run's credential is revoked or expired
  kSessionCredential,  // the same of its session's
};

// The place of a workspace, and the size from which workspaces lie on disk.
struct WorkspacePlace {
  bool on_disk = false;
  // Above this disk_mb, in bytes, this runtime and node put a workspace on disk, without the bound
  // of memory_mb; nothing if never.
  std::optional<uint64_t> disk_over = {};
};

// "the credential that <did it>, <id>, was revoked or has expired". A key stays valid through its
// successors, so the revoked key may be a successor.
std::string lostCredential(const std::string& did, const std::string& id);

// The limit of an error for want of processor time, by a quota.
inline constexpr std::string_view kCpuQuota = "cpu_seconds_per_hour";

// The sandbox's outcome → status, exit code, signal, usage, compile result and error. `cause`
// counts only where the program did not end first.
void applyOutcome(model::Execution& execution, const model::Outcome& outcome,
                  const model::Limits& limits, const WorkspacePlace& workspace, Cause cause);

// A fault of ours. `started`: the program had been started.
void applyFault(model::Execution& execution, const Error& fault, Cause cause, bool started);

// Ends the execution for `cause` without an outcome.
void applyCause(model::Execution& execution, Cause cause);

void applyDenial(model::Execution& execution, const policy::Denied& denied);

// Notes on a run without a fault: output over its bound, artifacts left out or lost. An earlier
// error stays.
void noteTruncatedOutput(model::Execution& execution, uint64_t cap);
void noteLostArtifacts(model::Execution& execution, const std::string& reason);
void noteOverQuota(model::Execution& execution);
// The first file that was left out because it has a secret.
void noteWithheldArtifact(model::Execution& execution, const std::string& path,
                          const std::string& secret);
// An artifact, or a stream from there on, was withheld by a DLP rule.
void noteRefusedText(model::Execution& execution, bool artifact, const std::string& where,
                     const std::string& rule);
void noteTruncatedArtifacts(model::Execution& execution, uint64_t max_files, uint64_t max_bytes);

}  // namespace cloister::orchestrator
