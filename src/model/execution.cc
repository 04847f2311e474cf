// SPDX-License-Identifier: Apache-2.0
#include "model/execution.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/content_type.h"
#include "base/crypto.h"
#include "model/artifact.h"
#include "model/run_request.h"

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

// Text cut at a byte count may end within a character; without the partial character, the rest is
// text.
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
  if (p.fresh) object[kSandboxMember] = kFreshSandbox;
  for (const ProvenanceLayer& layer : p.layers) {
    if (!object.contains("layers")) object["layers"] = json::array();
    object["layers"].as_array().emplace_back(json::object{
        {"place", layer.place}, {"digest", layer.digest}, {"sbom_sha256", layer.sbom_sha256}});
  }
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

json::object toObject(const Cell& cell) {
  json::object object = {
      {"kernel", cell.kernel}, {"number", cell.number}, {"state_lost", cell.state_lost}};
  if (cell.state_lost) {
    object["state_lost_when"] = cell.lost_before ? "before" : "with";
    object["state_lost_reason"] = textOrNull(cell.lost_why);
  }
  return object;
}

// Optional members of the contract.
void addRest(json::object& object, const Execution& execution) {
  object["session_id"] = textOrNull(execution.session_id);
  object["parent_id"] = textOrNull(execution.parent_id);
  object["depth"] = execution.depth;
  object["language"] = textOrNull(execution.language);
  object["metadata"] = execution.metadata;
  object["limits"] = nullptr;
  if (execution.limits) object["limits"] = limitsObject(*execution.limits);
  object["network"] = toJsonObject(execution.network);
  if (execution.compile) object["compile"] = toObject(*execution.compile);
  if (execution.cell) {
    object["results"] = execution.results;
    object["results_truncated"] = execution.results_truncated;
    object["results_left_out"] = execution.results_left_out;
    object["cell"] = toObject(*execution.cell);
  }
  object["stdout_bytes"] = execution.out.total;
  object["stderr_bytes"] = execution.err.total;
  for (const auto& [name, kept] :
       {std::pair("stdout", &execution.out), std::pair("stderr", &execution.err)}) {
    if (kept->artifact.empty()) continue;
    const std::string artifact = name + std::string("_artifact");
    object[artifact] = kept->artifact;
    object[artifact + "_truncated"] = artifactBytes(execution, *kept) < kept->total;
  }
}

}  // namespace

uint64_t artifactBytes(const Execution& execution, const KeptOutput& kept) {
  const auto found = std::ranges::find(execution.artifacts, kept.artifact, &ArtifactRef::id);
  return kept.artifact.empty() || found == execution.artifacts.end() ? 0 : found->size;
}

std::optional<Figure> figureOf(const json::value& result) {
  const json::object* data = result.if_object();
  for (const std::string_view type : {"image/png", "image/jpeg"}) {
    const json::value* text = data == nullptr ? nullptr : data->if_contains(type);
    if (text == nullptr || !text->is_string()) continue;
    auto bytes = base::fromBase64(text->get_string());
    if (bytes && base::sniffContentType("", *bytes) == type) return Figure{type, *std::move(bytes)};
  }
  return std::nullopt;
}

std::string figurePath(uint64_t cell, size_t result, std::string_view type) {
  return "cell-" + std::to_string(cell) + "-" + std::to_string(result + 1) +
         (type == "image/png" ? ".png" : ".jpg");
}

std::string leftOutText(const json::array& left_out) {
  const auto number = [](const json::object& part, std::string_view name) {
    const json::value* value = part.if_contains(name);
    json::error_code error;
    return value != nullptr ? value->to_number<uint64_t>(error) : 0;
  };
  std::string lines;
  for (const json::value& item : left_out) {
    if (!item.is_object()) continue;
    const json::object& part = item.get_object();
    const json::value* type = part.if_contains("type");
    const bool whole = type == nullptr || !type->is_string() || type->get_string().empty();
    const uint64_t kept = number(part, "kept_bytes");
    lines += whole ? "a result" : std::string(type->get_string());
    lines += " of " + std::to_string(number(part, "bytes")) + " bytes was over a bound and ";
    lines += kept > 0 ? "is cut to " + std::to_string(kept) + "\n" : "was left out\n";
  }
  return lines;
}

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
  json::object object = {{"id", artifact.id},
                         {"path", artifact.path},
                         {"size", artifact.size},
                         {"content_type", artifact.content_type},
                         {"sha256", artifact.sha256}};
  if (artifact.full_size > 0) {
    object["truncated"] = true;
    object["full_size"] = artifact.full_size;
  }
  return object;
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
  return describedJson(usage);
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
    case Code::kNotFound:
      return error_type::kNotFound;
    case Code::kInvalid:
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
