// SPDX-License-Identifier: Apache-2.0
// /v1/tool-calls and /v1/capabilities: a ToolCall in, an EffectResult out. A call is an execution
// of a run request made by the registry (model/tool.h): record, audit rows, receipt and id are the
// execution's.
#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "api/rest/requests.h"
#include "model/tool.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using model::Execution;
using model::Tool;

constexpr int kStatusTimedOut = 124;  // the same as `cloister run`
constexpr int kStatusSignal = 128;
constexpr std::string_view kScopeMember = "tools";  // of a session's metadata

struct ToolCall {
  const Tool* tool = nullptr;
  json::object arguments;
  std::string session_id;
  std::string parent_id;
  std::string sandbox;  // of a session
  json::object metadata;
  std::string approval;
  std::string key;  // Idempotency-Key
};

Result<const model::ToolSet*> toolsOf(const RestParts& parts) {
  if (parts.tools != nullptr) return parts.tools;
  return fail(Code::kUnsupported, "tool calls: this service has no registry");
}

Result<ToolCall> parseCall(const json::object& body, const model::ToolSet& tools) {
  base::ObjectReader reader(body, "");
  ToolCall call;
  const auto id = TRY(reader.text("tool_id"));
  if (!id) return fail(Code::kInvalid, "tool_id: is required", "tool_id");
  call.tool = TRY(tools.find(*id));
  if (const auto* arguments = TRY(reader.object("arguments"))) call.arguments = *arguments;
  call.session_id = TRY(reader.text("session_id")).value_or("");
  call.parent_id = TRY(reader.text("parent_id")).value_or("");
  if (!call.parent_id.empty() && call.session_id.empty()) {
    return fail(Code::kInvalid, "parent_id: is of a session; give its session_id, or leave it out",
                "parent_id");
  }
  const auto sandbox = TRY(reader.text(model::kSandboxMember));
  if (sandbox && call.session_id.empty()) {
    return fail(Code::kInvalid,
                "sandbox: is of a session, and without one each call has a fresh one; give its "
                "session_id, or leave it out",
                "sandbox");
  }
  call.sandbox = sandbox.value_or(std::string(model::kFreshSandbox));
  if (const auto* metadata = TRY(reader.object("metadata"))) call.metadata = *metadata;
  call.approval = TRY(reader.text("approval")).value_or("");
  TRY(reader.finish());
  return call;
}

// Adds the call's members other than the arguments.
json::object withRest(const ToolCall& call, json::object request) {
  request["metadata"] = call.metadata;
  if (!call.approval.empty()) request["approval"] = call.approval;
  return request;
}

// A try, and the try before.
struct Attempt {
  uint32_t number = 1;
  std::string retry_of;  // "" for the first
};

// The registry's values replace the caller's metadata.
Result<> holdToRegistry(const ToolCall& call, const Attempt& attempt, model::ToolPlace place,
                        model::RunRequest& request) {
  request.metadata["tool_type"] = call.tool->tool_type;
  request.metadata[std::string(model::kToolMember)] = call.tool->id;
  if (attempt.number > 1) {
    request.metadata[std::string(model::kRetryMember)] = attempt.retry_of;
    request.metadata[std::string(model::kAttemptMember)] = std::to_string(attempt.number);
  }
  return model::holdToRules(call.tool->id, call.tool->rules, place, request);
}

// A session whose metadata name tools is limited to those tools.
Result<> checkScope(const model::Session& session, const Tool& tool) {
  const json::value* scope = session.metadata.if_contains(kScopeMember);
  if (scope == nullptr || !scope->is_string()) return {};
  std::string_view left = scope->get_string();
  while (!left.empty()) {
    const size_t end = std::min(left.find_first_of(" ,"), left.size());
    if (left.substr(0, end) == tool.id) return {};
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return fail(Code::kDenied,
              "tool_id: " + tool.id + " is not among the tools of this session, " +
                  std::string(scope->get_string()),
              "tool_id");
}

Task<Result<Execution>> callInSession(RestParts& parts, const model::Principal& principal,
                                      const ToolCall& call, std::string key,
                                      const Attempt& attempt) {
  if (!model::may(principal.roles, Permission::kSessionUse)) {
    co_return fail(Code::kDenied, "session_id: needs the permission session.use", "session_id");
  }
  const std::string id = CO_TRY(parts.sessions.idOf(principal, call.session_id));
  const model::Session session = CO_TRY(parts.sessions.get(principal, id));
  CO_TRY(checkScope(session, *call.tool));
  json::object body = withRest(call, CO_TRY(model::sessionRequestOf(*call.tool, call.arguments)));
  if (!call.parent_id.empty()) body["parent_id"] = call.parent_id;
  body[model::kSandboxMember] = call.sandbox;
  model::ExecRequest wanted = CO_TRY(model::parseExecRequest(body, parts.bounds, session));
  if (!wanted.kernel) wanted.kernel = model::kNoKernel;  // each call is a program of its own
  const auto place = wanted.run.fresh ? model::ToolPlace::kFresh : model::ToolPlace::kSession;
  CO_TRY(holdToRegistry(call, attempt, place, wanted.run));
  co_return co_await parts.sessions.exec(principal, session.id, std::move(wanted), std::move(key));
}

// Makes an attempt, from its acceptance on.
Task<Result<Execution>> make(RestParts& parts, const model::Principal& principal,
                             const ToolCall& call, std::string key, Attempt attempt) {
  if (!call.session_id.empty()) {
    co_return co_await callInSession(parts, principal, call, std::move(key), attempt);
  }
  const json::object body = withRest(call, CO_TRY(model::requestOf(*call.tool, call.arguments)));
  model::RunRequest wanted = CO_TRY(model::parseRunRequest(body, parts.bounds));
  CO_TRY(holdToRegistry(call, attempt, model::ToolPlace::kOwnSandbox, wanted));
  co_return co_await parts.service.run(principal, std::move(wanted), std::move(key));
}

// The number of retries after such an end.
uint32_t retriesFor(const Tool& tool, const Execution& execution) {
  if (!execution.error) return 0;
  if (execution.error->type == model::error_type::kStartupFailed) return tool.retry.startup;
  if (execution.error->type == model::error_type::kTimeout) return tool.retry.timeout;
  return 0;
}

// ---- the EffectResult --------------------------------------------------------------------------

json::value exitCode(const Execution& execution) {
  if (execution.exit_code) return *execution.exit_code;
  if (execution.status == model::Status::kTimedOut) return kStatusTimedOut;
  const bool limit = execution.error && execution.error->type == model::error_type::kResourceLimit;
  const int told = model::signalNumber(execution.signal);
  const int signal = limit && told == 0 ? SIGKILL : told;
  return signal > 0 ? json::value(kStatusSignal + signal) : json::value(nullptr);
}

// Repeats a limit's value and use under the limit's own name and unit: memory_limit_mb,
// memory_used_mb.
void nameLimit(json::object& details) {
  constexpr uint64_t kMiB = uint64_t{1} << 20;
  const json::value* limit = details.if_contains("limit");
  if (limit == nullptr || !limit->is_string()) return;
  const std::string name(limit->get_string());
  const json::value* unit = details.if_contains("unit");
  const bool bytes = unit != nullptr && unit->is_string() && unit->get_string() == "bytes";
  if (!name.ends_with("_mb") || !bytes) return;
  const std::string stem = name.substr(0, name.size() - 3);
  for (const auto& [member, word] :
       {std::pair{"value", "_limit_mb"}, std::pair{"used", "_used_mb"}}) {
    json::error_code error;
    const json::value* value = details.if_contains(member);
    const auto number = value != nullptr ? value->to_number<uint64_t>(error) : 0;
    if (value != nullptr && !error) details[stem + word] = (number + kMiB - 1) / kMiB;
  }
}

json::value effectError(const Execution& execution) {
  if (!execution.error) return nullptr;
  json::object error = model::toJsonObject(*execution.error);
  nameLimit(error["details"].get_object());
  return error;
}

json::object effectOf(const Execution& execution) {
  const json::object whole = model::toJsonObject(execution);
  json::object output;
  constexpr std::array<std::string_view, 10> kOutput = {"stdout",
                                                        "stderr",
                                                        "stdout_encoding",
                                                        "stderr_encoding",
                                                        "stdout_truncated",
                                                        "stderr_truncated",
                                                        "stdout_artifact",
                                                        "stderr_artifact",
                                                        "stdout_artifact_truncated",
                                                        "stderr_artifact_truncated"};
  for (const std::string_view member : kOutput) {
    if (const json::value* value = whole.if_contains(member)) output[member] = *value;
  }
  const json::object& metadata = execution.metadata;
  const json::value* retry_of = metadata.if_contains(model::kRetryMember);
  const json::value* attempt = metadata.if_contains(model::kAttemptMember);
  const int attempts = attempt != nullptr ? std::atoi(attempt->get_string().c_str()) : 1;
  const model::Provenance& from = execution.provenance;
  const bool shared = !execution.session_id.empty() && !from.fresh && !from.nested;
  const std::string& container = shared ? execution.session_id : from.permit_id;
  const auto or_null = [](const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(text);
  };
  return {{"id", execution.id},
          {"tool_id", metadata.at(model::kToolMember)},
          {"status", model::statusName(execution.status)},
          {"exit_code", exitCode(execution)},
          {"output", std::move(output)},
          {"artifacts", whole.at("artifacts")},
          {"error", effectError(execution)},
          {"metadata",
           {{"container_id", or_null(container)},
            {"execution_id", execution.id},
            {"session_id", whole.at("session_id")},
            {"parent_id", whole.at("parent_id")},
            {"depth", whole.at("depth")},
            {"duration_ms", execution.usage.wall_ms},
            {"signal", whole.at("signal")},
            {"output_sha256", or_null(from.output_sha256)},
            {"runtime", or_null(from.runtime)},
            {"resource_usage", whole.at("resource_usage")},
            {"attempts", attempts},
            {"retry_of", retry_of != nullptr ? *retry_of : json::value(nullptr)}}}};
}

Response effectResponse(const Execution& execution) {
  return jsonResponse(model::isTerminal(execution.status) ? 200 : 202, effectOf(execution))
      .with("Location", "/v1/tool-calls/" + execution.id);
}

// ---- handlers ----------------------------------------------------------------------------------

// Each try has a key of its own, so that a client can repeat the whole call. The key has a space,
// and client keys never do.
std::string keyOf(const std::string& key, uint32_t tries) {
  return key.empty() || tries == 0 ? key : key + " " + std::to_string(tries);
}

Task<Result<Response>> call(RestParts& parts, Request& request) {
  const model::ToolSet& tools = *CO_TRY(toolsOf(parts));
  const auto asked = CO_TRY(queryInteger(request, "wait", 0, kMaxWaitSeconds));
  const auto until = base::monotonicNow() + std::chrono::seconds(asked.value_or(kMaxWaitSeconds));
  std::string key = CO_TRY(idempotencyKey(request));
  auto read = co_await readBody<ToolCall>(
      parts, request, [&tools](const json::object& body) { return parseCall(body, tools); });
  ToolCall wanted = CO_TRY(std::move(read));
  wanted.key = std::move(key);
  request.watch_peer();
  Execution execution;
  for (uint32_t tries = 0;; ++tries) {
    const Attempt attempt{.number = tries + 1, .retry_of = execution.id};
    auto accepted =
        co_await make(parts, request.principal, wanted, keyOf(wanted.key, tries), attempt);
    execution = CO_TRY(std::move(accepted));
    const auto left = std::chrono::ceil<Millis>(until - base::monotonicNow());
    auto waited =
        co_await parts.service.wait(request.principal, execution.id, std::max(left, Millis(0)));
    execution = CO_TRY(std::move(waited));
    const bool again = tries < retriesFor(*wanted.tool, execution) && wanted.approval.empty() &&
                       base::monotonicNow() < until;
    // The connection may be closed by then, and a revoked credential begins nothing new.
    if (!again || !parts.authenticator.stands(request.credential))
      co_return effectResponse(execution);
  }
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  auto found = parts.service.get(request.principal, request.params[0]);
  const bool other = found && !found->metadata.contains(model::kToolMember);
  if (other || (!found && found.error().code == Code::kNotFound)) {
    co_return fail(Code::kNotFound, "there is no such tool call");
  }
  co_return effectResponse(CO_TRY(std::move(found)));
}

Task<Result<Response>> capabilities(RestParts& parts, Request& /*request*/) {
  json::array tools;
  for (const Tool& tool : CO_TRY(toolsOf(parts))->all())
    tools.push_back(model::toJsonObject(tool));
  co_return jsonResponse(200, json::object{{"tools", std::move(tools)}});
}

}  // namespace

std::vector<Route> toolRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {{.method = "POST",
           .pattern = "/v1/tool-calls",
           .access = needs(Permission::kExecutionRun),
           .query = {"wait"},
           .handle = with(call),
           .json_body = true},
          {.method = "GET",
           .pattern = "/v1/tool-calls/{id}",
           .access = needs(Permission::kExecutionRead),
           .query = {},
           .handle = with(show)},
          {.method = "GET",
           .pattern = "/v1/capabilities",
           .access = needs(Permission::kExecutionRun),
           .query = {},
           .handle = with(capabilities)}};
}

}  // namespace cloister::api
