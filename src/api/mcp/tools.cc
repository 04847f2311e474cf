// SPDX-License-Identifier: Apache-2.0
// tools/list and tools/call: the table of tools, and the shape of their answers.
#include <algorithm>

#include "api/mcp/hosted_servers.h"
#include "api/mcp/tool.h"
#include "api/rest/requests.h"
#include "base/crypto.h"

namespace cloister::api::mcp {
namespace {

struct Tool {
  std::string_view name;
  Permission permission;
  ToolHandler handle;
};

constexpr Tool kTools[] = {
    {"run", Permission::kExecutionRun, runTool},
    {"create_session", Permission::kSessionUse, createSessionTool},
    {"exec", Permission::kExecutionRun, execTool},
    {"get_logs", Permission::kExecutionRead, logsTool},
    {"cancel", Permission::kExecutionStop, cancelTool},
    {"upload", Permission::kFileWrite, uploadTool},
    {"download", Permission::kFileRead, downloadTool},
    {"list_artifacts", Permission::kArtifactRead, listArtifactsTool},
    {"set_memory", Permission::kFileWrite, setMemoryTool},
    {"get_memory", Permission::kFileRead, getMemoryTool},
    {"list_memory", Permission::kFileRead, listMemoryTool},
    {"delete_memory", Permission::kFileWrite, deleteMemoryTool},
    {"list_sessions", Permission::kSessionRead, listSessionsTool},
    {"terminate", Permission::kSessionEnd, terminateTool},
};

std::string_view typeOf(Code code) {
  switch (code) {
    case Code::kUnauthorized:
    case Code::kDenied:
      return model::error_type::kPermissionDenied;
    case Code::kQuota:
      return model::error_type::kQuotaExceeded;
    case Code::kNotFound:
      return model::error_type::kNotFound;
    case Code::kInvalid:
    case Code::kConflict:
    case Code::kTooLarge:
    case Code::kUnsupported:
      return model::error_type::kInvalidRequest;
    case Code::kUnavailable:
    case Code::kNoSpace:
    case Code::kInternal:
      break;
  }
  return model::error_type::kInternal;
}

std::string nextStep(const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
    case Code::kTooLarge:
    case Code::kUnsupported:
      return error.field.empty() ? "correct the arguments and call again"
                                 : "correct the argument " + error.field + " and call again";
    case Code::kNotFound:
      return "check the id: list_sessions and list_artifacts show what there is; what has ended is "
             "gone, so make a new session with create_session";
    case Code::kConflict:
      return "look at its state with list_sessions or get_logs; a session that has ended is gone: "
             "make a new one with create_session";
    case Code::kUnauthorized:
    case Code::kDenied:
      return "do without it, or ask the operator to allow it in the policy";
    case Code::kQuota:
    case Code::kUnavailable:
      if (error.lasting) return "ask for less, or ask the operator to raise the quota";
      return error.retry_after_seconds > 0
                 ? "call again in " + std::to_string(error.retry_after_seconds) + " s"
                 : std::string("call again later; end sessions that are not needed with terminate");
    case Code::kNoSpace:
    case Code::kInternal:
      break;
  }
  return "call again once; if it stays, tell the operator";
}

// Models fill in arguments without a meaning. In these arguments an empty value has a meaning.
constexpr std::string_view kMayBeEmpty[] = {"artifacts", "content"};

void dropAbsent(json::object& arguments) {
  const auto isAbsent = [](std::string_view name, const json::value& value) {
    if (value.is_null()) return true;
    if (std::ranges::find(kMayBeEmpty, name) != std::end(kMayBeEmpty)) return false;
    return (value.is_string() && value.get_string().empty()) ||
           (value.is_array() && value.get_array().empty());
  };
  for (auto at = arguments.begin(); at != arguments.end();) {
    const bool absent = isAbsent(at->key(), at->value());
    at = absent ? arguments.erase(at) : at + 1;
  }
  const json::value* content = arguments.if_contains("content");
  const bool empty = content != nullptr && content->is_string() && content->get_string().empty();
  if (empty && arguments.contains("bytes")) arguments.erase("content");
}

}  // namespace

Result<std::string> takeText(json::object& arguments, std::string_view name) {
  const json::value* value = arguments.if_contains(name);
  if (value == nullptr || value->is_null()) {
    arguments.erase(name);
    return "";
  }
  if (!value->is_string()) {
    return fail(Code::kInvalid, std::string(name) + ": must be a string", std::string(name));
  }
  std::string text(value->get_string());
  arguments.erase(name);
  return text;
}

Result<> listedEnv(json::object& arguments) {
  const json::value* env = arguments.if_contains("env");
  if (env == nullptr || !env->is_array()) return {};
  json::object named;
  size_t at = 0;
  for (const json::value& item : env->get_array()) {
    const std::string field = "env[" + std::to_string(at++) + "]";
    const std::string_view text = item.is_string() ? std::string_view(item.get_string()) : "";
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return fail(Code::kInvalid, field + ": must be NAME=VALUE", field);
    }
    const std::string_view name = text.substr(0, equals);
    if (named.contains(name)) {
      return fail(Code::kInvalid, field + ": " + std::string(name) + " is given twice", field);
    }
    named[name] = text.substr(equals + 1);
  }
  arguments["env"] = std::move(named);
  return {};
}

// Moves an argument into the object `network_policy`, which it makes where there is none.
Result<> moveToNetwork(json::object& arguments, std::string_view name, std::string_view member) {
  const json::value* given = arguments.if_contains(name);
  if (given == nullptr) return {};
  json::value value = *given;
  arguments.erase(name);
  if (value.is_null()) return {};
  json::value& policy = arguments["network_policy"];
  if (policy.is_null()) policy = json::object{{"tier", "restricted"}};
  if (!policy.is_object() || policy.get_object().contains(member)) {
    const std::string field(name);
    return fail(Code::kInvalid, field + ": not together with network_policy." + std::string(member),
                field);
  }
  policy.get_object()[member] = std::move(value);
  return {};
}

Result<> namedNetwork(json::object& arguments) {
  if (json::value* policy = arguments.if_contains("network_policy");
      policy != nullptr && policy->is_string()) {
    *policy = json::object{{"tier", policy->get_string()}};
  }
  TRY(moveToNetwork(arguments, "network_allow", "allow"));
  return moveToNetwork(arguments, "on_denied", "on_denied");
}

Result<std::string> takeKey(json::object& arguments) {
  std::string key = TRY(takeText(arguments, "idempotency_key"));
  if (key.empty()) return key;
  TRY(checkIdempotencyKey(key, "idempotency_key"));
  return key;
}

json::object textBlock(std::string_view text) {
  return {{"type", "text"}, {"text", text}};
}

json::object imageBlock(std::string_view bytes, std::string_view content_type) {
  return {{"type", "image"}, {"data", base::toBase64(bytes)}, {"mimeType", content_type}};
}

Answer errorAnswer(const Error& error) {
  const bool ours = error.code == Code::kInternal;
  const std::string message = ours ? "internal error; the server's log says more" : error.message;
  const bool passes = error.code == Code::kQuota || error.code == Code::kUnavailable;
  const bool retryable = passes && !error.lasting;
  const std::string next = nextStep(error);
  json::object told{{"type", typeOf(error.code)},
                    {"message", message},
                    {"next_step", next},
                    {"retryable", retryable}};
  if (!error.field.empty()) told["field"] = error.field;
  Answer answer;
  answer.structured = {{"status", "error"}, {"error", std::move(told)}};
  answer.text = "Error: " + message + "\nNext step: " + next;
  answer.is_error = true;
  return answer;
}

json::object toResult(Answer answer) {
  json::array content{textBlock(answer.text)};
  for (json::value& block : answer.more)
    content.push_back(std::move(block));
  json::object result{{"content", std::move(content)}};
  if (!answer.structured.empty()) result["structuredContent"] = std::move(answer.structured);
  result["isError"] = answer.is_error;
  return result;
}

namespace {

bool mayUseHosted(const Call& call) {
  return call.may(Permission::kSessionUse) && call.may(Permission::kExecutionRun);
}

// A call of a tool of a hosted server; nullopt: there is no such tool.
Task<std::optional<Reply>> callHosted(Server& server, Call& call, std::string name,
                                      json::object arguments) {
  HostedServers* hosted = server.rest().mcp_servers;
  if (hosted == nullptr || !HostedServers::isToolName(name) || !mayUseHosted(call)) {
    co_return std::nullopt;
  }
  auto result =
      co_await hosted->call(call.principal, std::move(name), std::move(arguments), call.exchange);
  if (result) co_return *std::move(result);
  if (result.error().code == Code::kNotFound) co_return std::nullopt;
  co_return toResult(errorAnswer(result.error()));
}

}  // namespace

Task<Reply> listTools(Server& server, Call& call, const json::object& params) {
  if (!textIn(params, "cursor").empty()) {
    co_return rpcError(code::kInvalidParams, "cursor: not one of this server");
  }
  json::array tools;
  for (const json::value& tool : server.definitions().at("tools").as_array()) {
    const auto* row = std::ranges::find(kTools, textIn(tool.get_object(), "name"), &Tool::name);
    if (row == std::end(kTools) || !call.may(row->permission)) continue;
    json::object shown = tool.get_object();
    shown["name"] = shownName(call.names, row->name);
    tools.push_back(std::move(shown));
  }
  if (HostedServers* hosted = server.rest().mcp_servers; hosted != nullptr && mayUseHosted(call)) {
    co_await hosted->listTools(call.principal, tools);
  }
  server.extras().listTools(call.era, tools);
  co_return json::object{
      {"tools", std::move(tools)}, {"ttlMs", 3'600'000}, {"cacheScope", "private"}};
}

// Puts the id in place of a session's name.
Result<> namedSession(Server& server, const Call& call, json::object& arguments) {
  json::value* session = arguments.if_contains("session_id");
  if (session == nullptr || !session->is_string()) return {};
  const std::string text(std::string_view(session->get_string()));
  *session = json::string(TRY(server.rest().sessions.idOf(call.principal, text)));
  return {};
}

Task<Reply> callTool(Server& server, Call& call, const json::object& params) {
  const std::string name = textIn(params, "name");
  const json::value* given = params.if_contains("arguments");
  if (given != nullptr && !given->is_object() && !given->is_null()) {
    co_return rpcError(code::kInvalidParams, "arguments: must be an object");
  }
  json::object arguments = objectIn(params, "arguments");
  if (const ExtraTool* extra = server.extras().tool(name)) {
    if ((extra->eras & static_cast<uint8_t>(call.era)) != 0) {
      co_return co_await extra->handle(server, call, params);
    }
    co_return rpcError(code::kInvalidParams, "there is no such tool");
  }
  const auto* tool = std::ranges::find(kTools, ownName(call.names, name), &Tool::name);
  if (tool == std::end(kTools)) {
    if (auto reply = co_await callHosted(server, call, name, arguments))
      co_return *std::move(reply);
  }
  if (tool == std::end(kTools) || call.anonymous()) {
    co_return rpcError(code::kInvalidParams,
                       "there is no tool \"" + name.substr(0, 64) + "\"; tools/list names them");
  }
  if (!call.may(tool->permission)) {
    const std::string lacks = "this credential lacks the permission " +
                              std::string(model::permissionName(tool->permission));
    co_return toResult(errorAnswer(Error{Code::kDenied, lacks, ""}));
  }
  dropAbsent(arguments);
  if (auto named = namedSession(server, call, arguments); !named) {
    co_return toResult(errorAnswer(named.error()));
  }
  Outcome outcome = co_await tool->handle(server, call, std::move(arguments));
  co_return toResult(outcome ? *std::move(outcome) : errorAnswer(outcome.error()));
}

}  // namespace cloister::api::mcp
