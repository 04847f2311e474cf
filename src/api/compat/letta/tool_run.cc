// SPDX-License-Identifier: Apache-2.0
#include "api/compat/letta/tool_run.h"

#include <algorithm>
#include <utility>

#include "model/outcome.h"

namespace cloister::api::compat::letta {
namespace {

using model::Execution;

constexpr int64_t kToolSeconds = 30;
constexpr int64_t kSchemaSeconds = 10;
constexpr Millis kQueue{120'000};  // most patience for a turn in the queue
constexpr std::string_view kMetadata = "letta.operation";
constexpr std::string_view kToolRunType = "cloister.tool-run";
constexpr std::string_view kServiceUrl = "http://api.cloister.internal/letta";

std::string textIn(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

json::object fileOf(std::string_view path, std::string_view content) {
  return {{"path", path}, {"content", content}};
}

// Gives the tool the way to this service and a key, if the policy grants both. An agent without a
// network has tools without a client.
Task<void> addClient(RestParts& parts, const model::Principal& principal, const std::string& key,
                     model::RunRequest& wanted) {
  model::RunRequest with = wanted;
  with.network.tier = "api";
  with.env["LETTA_BASE_URL"] = kServiceUrl;
  with.env["LETTA_API_KEY"] = key;
  if (co_await parts.service.plan(principal, with)) wanted = std::move(with);
}

// Runs the request to its end.
Task<Result<Execution>> runToEnd(RestParts& parts, model::Principal principal,
                                 model::RunRequest wanted, Millis within) {
  Execution run = CO_TRY(co_await parts.service.run(principal, std::move(wanted), ""));
  run = CO_TRY(co_await parts.service.wait(principal, run.id, within + kQueue));
  if (model::isTerminal(run.status)) co_return run;
  const bool blocked = run.status == model::Status::kBlocked;
  CO_TRY(co_await parts.service.cancel(std::move(principal), run.id));
  if (blocked) {
    co_return fail(Code::kDenied,
                   "the run of the tool needs an approval, for which this interface "
                   "cannot wait; run it with POST /v1/executions, or ask the "
                   "operator for a policy that allows it");
  }
  co_return fail(Code::kUnavailable, "the run of the tool had no turn in time; call again later");
}

// The parameters of a schema in their order: TypeScript has no arguments by name.
json::array orderOf(const json::object& tool) {
  json::array order;
  const json::value* schema = tool.if_contains("json_schema");
  const json::object* object = schema == nullptr ? nullptr : schema->if_object();
  const json::value* parameters = object == nullptr ? nullptr : object->if_contains("parameters");
  const json::object* named = parameters == nullptr ? nullptr : parameters->if_object();
  const json::value* properties = named == nullptr ? nullptr : named->if_contains("properties");
  if (properties == nullptr || !properties->is_object()) return order;
  for (const auto& each : properties->get_object())
    order.push_back(json::string(each.key()));
  return order;
}

json::object callObject(const RestParts& parts, const ToolCall& call) {
  return {{"name", call.name},
          {"args", call.args},
          {"order", orderOf(call.tool)},
          {"timeout", kToolSeconds},
          {"return_bytes", parts.compat.letta.return_bytes},
          {"output_bytes", parts.compat.letta.output_bytes}};
}

json::array filesOf(const RestParts& parts, const ToolCall& call, SourceType type) {
  const std::string source = sourceOf(call.tool);
  json::array files{fileOf("call.json", base::toJson(callObject(parts, call)))};
  if (type == SourceType::kTypescript) {
    // The bundler finds the function under one name, whether the source exports the function or
    // not.
    files.push_back(
        fileOf("tool.ts", source + "\nexport { " + call.name + " as cloisterTool };\n"));
  } else {
    files.push_back(fileOf("tool.py", source));
    files.push_back(fileOf(".letta/letta_client.py", parts.tool_programs.client_python));
    files.push_back(fileOf(".letta/letta.py", "from letta_client import Letta, LettaClient\n"));
  }
  return files;
}

json::object environmentOf(const ToolCall& call) {
  json::object env;
  for (const auto& [name, value] : call.env)
    env[name] = value;
  const std::pair<const char*, const std::string&> known[] = {{"LETTA_AGENT_ID", call.agent_id},
                                                              {"LETTA_PROJECT_ID", call.project_id},
                                                              {"LETTA_TOOL_ID", call.tool_id}};
  for (const auto& [name, value] : known) {
    if (!value.empty()) env[name] = value;
  }
  return env;
}

// JSON takes at most six bytes for one, and the result is there twice.
uint64_t outputBytes(const RestParts& parts) {
  const uint64_t wanted = uint64_t{12} * parts.compat.letta.return_bytes +
                          uint64_t{12} * parts.compat.letta.output_bytes + 4096;
  return std::min(wanted, parts.bounds.max.output_bytes);
}

Result<json::object> requestOf(const RestParts& parts, const ToolCall& call) {
  const SourceType type = sourceTypeOf(call.tool);
  json::array deps;
  for (const std::string& each : TRY(depsOf(call.tool, type)))
    deps.push_back(json::string(each));
  const bool typescript = type == SourceType::kTypescript;
  json::object body{
      {"language", sourceTypeName(type)},
      {"code", typescript ? parts.tool_programs.call_typescript : parts.tool_programs.call_python},
      {"files", filesOf(parts, call, type)},
      {"env", environmentOf(call)},
      {"artifacts", json::array()},
      {"timeout_seconds", kToolSeconds},
      {"max_output_bytes", outputBytes(parts)},
      {"metadata", {{kMetadata, "tool.run"}, {"letta.tool", call.name}}}};
  if (!deps.empty()) body["deps"] = std::move(deps);
  return body;
}

ToolResult failed(const ToolCall& call, const std::string& why) {
  ToolResult result;
  result.text = "Error executing function " + call.name + ": " + why;
  result.value = json::string(result.text);
  return result;
}

// What the run says where the tool's report is missing.
std::string endOf(const Execution& run) {
  if (run.compile && run.compile->exit_code != 0) return "the source does not compile";
  if (run.error) return run.error->message;
  return "the tool ended without a report";
}

ToolResult resultOf(const ToolCall& call, const Execution& run) {
  const auto report = base::parseJson(run.out.bytes, {.max_bytes = SIZE_MAX, .max_depth = 64});
  const json::object* found = report && report->is_object() ? &report->get_object() : nullptr;
  ToolResult result;
  if (found == nullptr) {
    result = failed(call, endOf(run));
    result.err = run.compile ? run.compile->stderr_text : run.err.bytes;
  } else if (const std::string error = textIn(*found, "error"); !error.empty()) {
    result = failed(call, error);
  } else {
    result.success = true;
    const json::value* value = found->if_contains("value");
    result.value = value == nullptr ? json::value(nullptr) : *value;
    result.text = textIn(*found, "text");
  }
  if (found != nullptr) {
    result.out = textIn(*found, "stdout");
    result.err = textIn(*found, "stderr");
  }
  result.execution = run.id;
  return result;
}

}  // namespace

Task<Result<ToolResult>> runTool(RestParts& parts, model::Principal principal, ToolCall call) {
  if (!isFunctionName(call.name)) {
    co_return fail(Code::kInvalid, "name: must be the name of the tool's function", "name");
  }
  const json::object body = CO_TRY(requestOf(parts, call));
  model::RunRequest wanted = CO_TRY(model::parseRunRequest(body, parts.bounds));
  // Only the service itself names this type: the policy grants the tier api to no other request.
  wanted.metadata["tool_type"] = std::string(kToolRunType);
  if (!call.key.empty()) co_await addClient(parts, principal, call.key, wanted);
  const Execution run = CO_TRY(co_await runToEnd(parts, std::move(principal), std::move(wanted),
                                                 std::chrono::seconds(kToolSeconds)));
  if (run.status == model::Status::kDenied) {
    co_return fail(Code::kDenied, run.error ? run.error->message : "the policy denies the run");
  }
  co_return resultOf(call, run);
}

Task<Result<json::object>> deriveSchema(RestParts& parts, model::Principal principal,
                                        std::string source) {
  const json::object body{{"language", "python"},
                          {"code", parts.tool_programs.schema_python},
                          {"input", source},
                          {"artifacts", json::array()},
                          {"timeout_seconds", kSchemaSeconds},
                          {"metadata", {{kMetadata, "tool.schema"}}}};
  model::RunRequest wanted = CO_TRY(model::parseRunRequest(body, parts.bounds));
  const Execution run = CO_TRY(co_await runToEnd(parts, std::move(principal), std::move(wanted),
                                                 std::chrono::seconds(kSchemaSeconds)));
  const auto answer = base::parseJson(run.out.bytes);
  const json::object* found = answer && answer->is_object() ? &answer->get_object() : nullptr;
  const json::value* schema = found == nullptr ? nullptr : found->if_contains("schema");
  if (schema != nullptr && schema->is_object()) co_return schema->get_object();
  const std::string why = found == nullptr ? "" : textIn(*found, "error");
  co_return fail(Code::kInvalid,
                 !why.empty() ? why
                              : "source_code: the parser could not read it: " + endOf(run) +
                                    "; give json_schema",
                 "source_code");
}

}  // namespace cloister::api::compat::letta
