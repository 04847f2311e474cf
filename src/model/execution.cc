// SPDX-License-Identifier: Apache-2.0
#include "model/execution.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/crypto.h"
#include "model/artifact.h"

namespace cloister::model {
namespace {

namespace json = base::json;

struct StatusRow {
  Status status;
  std::string_view name;
  std::vector<Status> next;  // empty: terminal
};

const std::array<StatusRow, 8>& statusTable() {
  using enum Status;
  static const std::array<StatusRow, 8> table = {{
      {kQueued, "queued", {kRunning, kBlocked, kFailed, kTimedOut, kCancelled, kDenied}},
      {kRunning, "running", {kBlocked, kCompleted, kFailed, kTimedOut, kCancelled, kDenied}},
      {kBlocked, "blocked", {kQueued, kRunning, kFailed, kTimedOut, kCancelled, kDenied}},
      {kCompleted, "completed", {}},
      {kFailed, "failed", {}},
      {kTimedOut, "timed_out", {}},
      {kCancelled, "cancelled", {}},
      {kDenied, "denied", {}},
  }};
  return table;
}

const StatusRow& rowOf(Status status) {
  return statusTable().at(static_cast<size_t>(status));
}

struct ShownText {
  std::string text;
  bool base64 = false;
};

// Text cut at a byte count may end inside a character; what is left without it is still text.
ShownText show(const KeptOutput& output) {
  const std::string_view text =
      output.truncated ? base::withoutCutCharacter(output.bytes) : std::string_view(output.bytes);
  if (base::isUtf8(text)) return {std::string(text), false};
  return {base::toBase64(output.bytes), true};
}

json::value textOrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::value timeOrNull(int64_t wall_micros) {
  return textOrNull(base::formatTime(wall_micros));
}

json::array toArray(const std::vector<ArtifactRef>& artifacts) {
  json::array array;
  for (const ArtifactRef& artifact : artifacts)
    array.push_back(toJsonObject(artifact));
  return array;
}

json::object toObject(const Provenance& p) {
  json::object object = {{"runtime", textOrNull(p.runtime)},
                         {"node", textOrNull(p.node)},
                         {"image_digest", textOrNull(p.image_digest)},
                         {"policy_id", textOrNull(p.policy_id)},
                         {"permit_id", textOrNull(p.permit_id)},
                         {"code_sha256", textOrNull(p.code_sha256)},
                         {"output_sha256", textOrNull(p.output_sha256)},
                         {"weakened", json::array(p.weakened.begin(), p.weakened.end())},
                         {"stdout_sha256", textOrNull(p.stdout_sha256)},
                         {"stderr_sha256", textOrNull(p.stderr_sha256)},
                         {"image", textOrNull(p.image)}};
  if (p.nested) object["nested"] = true;
  return object;
}

// A compiler may print bytes that are no text; its messages are for reading, so the fallback is
// the same as for the program's output.
void addText(json::object& object, std::string_view name, const std::string& bytes) {
  const ShownText shown = show({.bytes = bytes, .total = 0, .truncated = true, .artifact = {}});
  object[name] = shown.text;
  if (shown.base64) object[std::string(name) + "_encoding"] = "base64";
}

json::object toObject(const CompileResult& compile) {
  json::object object = {{"exit_code", compile.exit_code}, {"wall_ms", compile.wall_ms}};
  addText(object, "stdout", compile.stdout_text);
  addText(object, "stderr", compile.stderr_text);
  return object;
}

// What the contract allows beyond its fixed members.
void addRest(json::object& object, const Execution& execution) {
  object["session_id"] = textOrNull(execution.session_id);
  object["language"] = textOrNull(execution.language);
  object["metadata"] = execution.metadata;
  if (execution.compile) object["compile"] = toObject(*execution.compile);
  if (execution.cell) {
    object["results"] = execution.results;
    object["results_truncated"] = execution.results_truncated;
    object["cell"] = json::object{{"kernel", execution.cell->kernel},
                                  {"number", execution.cell->number},
                                  {"state_lost", execution.cell->state_lost}};
  }
  object["stdout_bytes"] = execution.out.total;
  object["stderr_bytes"] = execution.err.total;
  if (!execution.out.artifact.empty()) object["stdout_artifact"] = execution.out.artifact;
  if (!execution.err.artifact.empty()) object["stderr_artifact"] = execution.err.artifact;
}

}  // namespace

std::string_view statusName(Status status) {
  return rowOf(status).name;
}

std::optional<Status> statusFromName(std::string_view name) {
  const auto at = std::ranges::find(statusTable(), name, &StatusRow::name);
  if (at == statusTable().end()) return std::nullopt;
  return at->status;
}

bool isTerminal(Status status) {
  return rowOf(status).next.empty();
}

bool mayBecome(Status from, Status to) {
  return std::ranges::find(rowOf(from).next, to) != rowOf(from).next.end();
}

json::object toJsonObject(const ArtifactRef& artifact) {
  return {{"id", artifact.id},
          {"path", artifact.path},
          {"size", artifact.size},
          {"content_type", artifact.content_type},
          {"sha256", artifact.sha256}};
}

json::object toJsonObject(const Artifact& artifact) {
  json::object object = toJsonObject(artifact.ref);
  object["execution_id"] =
      artifact.execution_id.empty() ? json::value(nullptr) : json::value(artifact.execution_id);
  object["created_at"] = timeOrNull(artifact.created_at);
  object["expires_at"] = timeOrNull(artifact.ref.expires_at);
  return object;
}

json::object toJsonObject(const Usage& usage) {
  return {{"wall_ms", usage.wall_ms},
          {"cpu_ms", usage.cpu_ms},
          {"max_rss_bytes", usage.max_rss_bytes},
          {"io_read_bytes", usage.io_read_bytes},
          {"io_write_bytes", usage.io_write_bytes},
          {"processes", usage.processes}};
}

json::object toJsonObject(const Principal& principal) {
  return {{"tenant", principal.tenant},
          {"app", principal.app},
          {"agent", principal.agent},
          {"user", principal.user}};
}

std::string_view errorTypeOf(Code code) {
  switch (code) {
    case Code::kUnauthorized:
    case Code::kDenied:
      return error_type::kPermissionDenied;
    case Code::kQuota:
      return error_type::kQuotaExceeded;
    case Code::kInvalid:
    case Code::kNotFound:
    case Code::kConflict:
    case Code::kTooLarge:
    case Code::kUnsupported:
      return error_type::kInvalidRequest;
    case Code::kUnavailable:
    case Code::kNoSpace:
    case Code::kInternal:
      break;
  }
  return error_type::kInternal;
}

json::object toJsonObject(const RunError& error) {
  return {{"type", error.type},
          {"message", error.message},
          {"details", error.details},
          {"retryable", error.retryable}};
}

json::object toJsonObject(const Execution& execution) {
  const ShownText out = show(execution.out);
  const ShownText err = show(execution.err);
  json::object object;
  object["id"] = execution.id;
  object["status"] = statusName(execution.status);
  object["exit_code"] = nullptr;
  if (execution.exit_code) object["exit_code"] = *execution.exit_code;
  object["signal"] = textOrNull(execution.signal);
  object["stdout"] = out.text;
  object["stderr"] = err.text;
  object["stdout_truncated"] = execution.out.truncated;
  object["stderr_truncated"] = execution.err.truncated;
  object["artifacts"] = toArray(execution.artifacts);
  object["resource_usage"] = toJsonObject(execution.usage);
  object["provenance"] = toObject(execution.provenance);
  object["error"] = nullptr;
  if (execution.error) object["error"] = toJsonObject(*execution.error);
  object["principal"] = toJsonObject(execution.principal);
  object["created_at"] = timeOrNull(execution.created_at);
  object["started_at"] = timeOrNull(execution.started_at);
  object["finished_at"] = timeOrNull(execution.finished_at);
  if (out.base64) object["stdout_encoding"] = "base64";
  if (err.base64) object["stderr_encoding"] = "base64";
  addRest(object, execution);
  return object;
}

std::string signalName(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return "SIG" + (name != nullptr ? std::string(name) : std::to_string(signal));
}

int signalNumber(std::string_view name) {
  if (!name.starts_with("SIG")) return 0;
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signalName(signal) == name) return signal;
  }
  return 0;
}

}  // namespace cloister::model
