// SPDX-License-Identifier: Apache-2.0
// Execution: the durable record of one run request, from acceptance to its one terminal state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/limits.h"
#include "model/network.h"
#include "model/outcome.h"
#include "model/principal.h"
#include "model/usage_history.h"

namespace cloister::model {

enum class Status : uint8_t {
  kQueued,
  kRunning,
  kBlocked,
  kCompleted,
  kFailed,
  kTimedOut,
  kCancelled,
  kDenied,
};

std::string_view statusName(Status status);
std::optional<Status> statusFromName(std::string_view name);
bool isTerminal(Status status);
// The transition table of the ledger: queued→running|blocked|cancelled|denied|failed, and so on.
bool mayBecome(Status from, Status to);

// `error.type` of the contract.
namespace error_type {
inline constexpr std::string_view kTimeout = "TIMEOUT";
inline constexpr std::string_view kResourceLimit = "RESOURCE_LIMIT_EXCEEDED";
inline constexpr std::string_view kPermissionDenied = "PERMISSION_DENIED";
inline constexpr std::string_view kApprovalRequired = "APPROVAL_REQUIRED";
inline constexpr std::string_view kQuotaExceeded = "QUOTA_EXCEEDED";
inline constexpr std::string_view kInvalidRequest = "INVALID_REQUEST";
inline constexpr std::string_view kNotFound = "NOT_FOUND";
inline constexpr std::string_view kStartupFailed = "SANDBOX_STARTUP_FAILED";
inline constexpr std::string_view kRunnerLost = "RUNNER_LOST";
inline constexpr std::string_view kNodeLost = "NODE_LOST";
inline constexpr std::string_view kServerRestart = "SERVER_RESTART";
inline constexpr std::string_view kCancelled = "CANCELLED";
inline constexpr std::string_view kOutputLimit = "OUTPUT_LIMIT";
inline constexpr std::string_view kInternal = "INTERNAL";
}  // namespace error_type

struct RunError {
  std::string type;
  std::string message;
  base::json::object details;
  bool retryable = false;
};

struct ArtifactRef {
  std::string id;
  std::string path;
  uint64_t size = 0;
  std::string content_type;
  std::string sha256;
  int64_t expires_at = 0;  // wall-clock microseconds; 0: never. Not part of an execution's record
  uint64_t full_size = 0;  // original size if cut at a limit; 0: complete
};

// A dependency layer of the sandbox.
struct ProvenanceLayer {
  std::string place;        // as in permits: "python", "node"
  std::string digest;       // "sha256:…"
  std::string sbom_sha256;  // of its bill of materials, as canonical JSON

  friend bool operator==(const ProvenanceLayer&, const ProvenanceLayer&) = default;
};

struct Provenance {
  std::string runtime;
  std::string node;
  std::string image;  // its name; "" in records of before there were several
  std::string image_digest;
  std::string policy_id;
  std::string permit_id;
  std::string code_sha256;
  std::string output_sha256;  // of all output bytes, stdout and stderr, in order of arrival
  std::string stdout_sha256;
  std::string stderr_sha256;
  std::vector<std::string> weakened;
  bool nested = false;  // in a sandbox of its own within its session's
  bool fresh = false;   // in a separate sandbox with its session's workspace
  std::vector<ProvenanceLayer> layers = {};
  std::string approval = {};  // escalation of another execution, whose approval also applied
};

// The kept part of a stream: the first `max_output_bytes`. A longer stream, or its first
// run.output_artifact_bytes, is in the named artifact.
struct KeptOutput {
  std::string bytes;
  uint64_t total = 0;  // bytes the program wrote
  bool truncated = false;
  std::string artifact;  // id, "" if none
};

// A cell's interpreter, which keeps its state between a session's cells.
struct Cell {
  std::string kernel;
  uint64_t number = 0;       // number of the cell in its interpreter, from 1; restarts with a new
                             // interpreter
  bool state_lost = false;   // the interpreter ended during or before this cell: a new one is
                             // started
  bool lost_before = false;  // the end was before this cell, and not reported by an earlier cell
  std::string lost_why = {};
};

// The figure of a cell's result, if any: PNG or JPEG. The declared type is the sandbox's claim, so
// the bytes are checked.
struct Figure {
  std::string_view type;
  std::string bytes;
};
std::optional<Figure> figureOf(const base::json::value& result);
// The figure's path as an artifact; `result` is its index among the results.
std::string figurePath(uint64_t cell, size_t result, std::string_view type);

struct Execution {
  std::string id;
  uint64_t seq = 0;  // order of acceptance
  Status status = Status::kQueued;
  Principal principal;
  std::string session_id;
  std::string parent_id;  // the calling execution of the same session; "" if none
  uint32_t depth = 0;     // number of nested calls above
  std::string language;
  base::json::object metadata;
  std::optional<Limits> limits;  // in force, as its permit has them; none before its start
  std::optional<int> exit_code;
  std::string signal;  // "SIGSEGV", "" if none
  KeptOutput out;
  KeptOutput err;
  std::vector<ArtifactRef> artifacts;
  Usage usage;
  UsageHistory usage_history;
  Provenance provenance;
  NetworkUse network;  // of a program of a session: between its start and its end
  std::optional<RunError> error;
  std::optional<CompileResult> compile;
  std::optional<Cell> cell;    // present for a cell
  base::json::array results;   // of a cell: objects, from mime types to data; hostile
  uint64_t results_bytes = 0;  // their approximate size
  bool results_truncated = false;
  // The first of the omitted parts: objects with the `result`'s index (null: a whole result is
  // missing), the part's `type`, its `bytes` as JSON, and the `kept_bytes` of a shortened text.
  base::json::array results_left_out;
  int64_t created_at = 0;
  int64_t started_at = 0;
  int64_t finished_at = 0;
};

// The number of a stream's bytes in its artifact; 0 without an artifact.
uint64_t artifactBytes(const Execution& execution, const KeptOutput& kept);

// The result in the run contract's form. Output other than UTF-8 is base64 with `stdout_encoding`.
base::json::object toJsonObject(const Execution& execution);
// A line for each of Execution::results_left_out; "" for none.
std::string leftOutText(const base::json::array& left_out);
// The type of an error other than a run's.
std::string_view errorTypeOf(Code code);
base::json::object toJsonObject(const RunError& error);
base::json::object toJsonObject(const ArtifactRef& artifact);
base::json::object toJsonObject(const Usage& usage);
base::json::object toJsonObject(const Principal& principal);

// "SIGKILL" and so on; "SIG34" for a signal without a name.
std::string signalName(int signal);
// The reverse; 0 for an unknown name.
int signalNumber(std::string_view name);

}  // namespace cloister::model
