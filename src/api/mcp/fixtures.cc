// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/fixtures.h"

#include <algorithm>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::api::mcp::fixtures {
namespace {

constexpr uint8_t kBoth = static_cast<uint8_t>(Era::kLegacy) | static_cast<uint8_t>(Era::kModern);
constexpr auto kLegacy = static_cast<uint8_t>(Era::kLegacy);
constexpr auto kModern = static_cast<uint8_t>(Era::kModern);
constexpr Millis kStep{50};

// One pixel, and an empty recording.
constexpr std::string_view kPng =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg"
    "==";
constexpr std::string_view kWav = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

json::object text(std::string_view words) {
  return {{"type", "text"}, {"text", words}};
}

json::object image() {
  return {{"type", "image"}, {"data", kPng}, {"mimeType", "image/png"}};
}

json::object embedded(std::string_view uri, std::string_view type, std::string_view words) {
  return {{"type", "resource"},
          {"resource", json::object{{"uri", uri}, {"mimeType", type}, {"text", words}}}};
}

Reply content(json::array blocks) {
  return json::object{{"content", std::move(blocks)}};
}

Task<void> pause(Server& server) {
  boost::asio::steady_timer timer(server.executor(), kStep);
  co_await timer.async_wait(boost::asio::use_awaitable);
}

Task<Reply> simpleText(Server&, Call&, const json::object&) {
  co_return textResult("This is a simple text response for testing.");
}
Task<Reply> imageContent(Server&, Call&, const json::object&) {
  co_return content({image()});
}
Task<Reply> audioContent(Server&, Call&, const json::object&) {
  co_return content({json::object{{"type", "audio"}, {"data", kWav}, {"mimeType", "audio/wav"}}});
}
Task<Reply> embeddedResource(Server&, Call&, const json::object&) {
  co_return content({embedded("test://embedded-resource", "text/plain",
                              "This is an embedded resource content.")});
}
Task<Reply> multipleContent(Server&, Call&, const json::object&) {
  co_return content({text("Multiple content types test:"), image(),
                     embedded("test://mixed-content-resource", "application/json",
                              R"({"test":"data","value":123})")});
}
Task<Reply> errorHandling(Server&, Call&, const json::object&) {
  json::object result = textResult("This tool intentionally returns an error for testing");
  result["isError"] = true;
  co_return result;
}
Task<Reply> withProgress(Server& server, Call& call, const json::object&) {
  constexpr uint64_t kTotal = 100;
  constexpr uint64_t kHalf = 50;
  call.progress(0, kTotal, "");
  co_await pause(server);
  call.progress(kHalf, kTotal, "");
  co_await pause(server);
  call.progress(kTotal, kTotal, "");
  co_return textResult("done");
}

// Told only where the client asked for logs.
void log(const Call& call, std::string_view words) {
  if (call.modern() && call.log_level.empty()) return;
  call.exchange->say(notification("notifications/message", {{"level", "info"}, {"data", words}}));
}

Task<Reply> withLogging(Server& server, Call& call, const json::object&) {
  log(call, "Tool execution started");
  co_await pause(server);
  log(call, "Tool processing data");
  co_await pause(server);
  log(call, "Tool execution completed");
  co_return textResult("done");
}
Task<Reply> loggingTool(Server&, Call& call, const json::object&) {
  log(call, "logged");
  co_return textResult("done");
}
Task<Reply> reconnection(Server& server, Call& call, const json::object&) {
  call.exchange->interrupt();
  co_await pause(server);
  co_await pause(server);
  co_return textResult("done after the stream was closed");
}

void change(Server& server, std::string_view wanted, std::string_view method) {
  for (const Listener& listener : server.listeners()) {
    if (!listener.wanted.contains(wanted)) continue;
    json::object about{{meta::kSubscription, listener.id}};
    listener.exchange->say(notification(method, {{"_meta", std::move(about)}}));
  }
}
Task<Reply> toolChange(Server& server, Call&, const json::object&) {
  change(server, "toolsListChanged", "notifications/tools/list_changed");
  co_return textResult("done");
}
Task<Reply> promptChange(Server& server, Call&, const json::object&) {
  change(server, "promptsListChanged", "notifications/prompts/list_changed");
  co_return textResult("done");
}

constexpr std::string_view kSchema2020 = R"({
  "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
  "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
    "street": {"type": "string"}, "city": {"type": "string"}}}},
  "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
    "phone": {"type": "string"}, "email": {"type": "string"}},
  "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
  "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
  "then": {"required": ["phone"]}, "else": {"required": ["email"]},
  "additionalProperties": false})";
constexpr std::string_view kPrompt =
    R"({"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]})";
constexpr std::string_view kMessage =
    R"({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]})";
constexpr std::string_view kHeaders = R"({"type": "object", "properties": {
  "region": {"type": "string", "x-mcp-header": "Region"},
  "query": {"type": "string"}}, "required": ["region", "query"]})";

constexpr Tool kTools[] = {
    {"test_simple_text", kBoth, "text", "", simpleText},
    {"test_image_content", kBoth, "an image", "", imageContent},
    {"test_audio_content", kBoth, "a recording", "", audioContent},
    {"test_embedded_resource", kBoth, "a resource", "", embeddedResource},
    {"test_multiple_content_types", kBoth, "several blocks", "", multipleContent},
    {"test_error_handling", kBoth, "an error", "", errorHandling},
    {"test_tool_with_progress", kBoth, "progress", "", withProgress},
    {"json_schema_2020_12_tool", kBoth, "a schema that is kept", kSchema2020, simpleText},
    {"test_tool_with_logging", kLegacy, "logs", "", withLogging},
    {"test_sampling", kLegacy, "asks the model", kPrompt, sampling},
    {"test_elicitation", kLegacy, "asks the user", kMessage, elicit},
    {"test_elicitation_sep1034_defaults", kLegacy, "defaults", "", elicitDefaults},
    {"test_elicitation_sep1330_enums", kLegacy, "enumerations", "", elicitEnums},
    {"test_reconnection", kLegacy, "closes the stream", "", reconnection},
    {"test_missing_capability", kModern, "needs sampling", "", missingCapability},
    {"test_streaming_elicitation", kModern, "asks on a stream", "", streamingElicitation},
    {"test_logging_tool", kModern, "logs", "", loggingTool},
    {"test_trigger_tool_change", kModern, "tells of a change", "", toolChange},
    {"test_trigger_prompt_change", kModern, "tells of a change", "", promptChange},
    {"test_input_required_result_elicitation", kModern, "asks", "", inputElicitation},
    {"test_input_required_result_sampling", kModern, "asks", "", inputSampling},
    {"test_input_required_result_list_roots", kModern, "asks", "", inputRoots},
    {"test_input_required_result_request_state", kModern, "asks", "", inputState},
    {"test_input_required_result_multiple_inputs", kModern, "asks", "", inputMultiple},
    {"test_input_required_result_multi_round", kModern, "asks twice", "", inputRounds},
    {"test_input_required_result_tampered_state", kModern, "asks", "", inputState},
    {"test_input_required_result_capabilities", kModern, "asks", "", inputCapabilities},
    {"test_header_parameter", kModern, "an argument in a header", kHeaders, simpleText},
};

const Tool* find(std::string_view name) {
  const auto* tool = std::ranges::find(kTools, name, &Tool::name);
  return tool == std::end(kTools) ? nullptr : tool;
}

json::object schema(const Tool& tool) {
  if (tool.schema.empty()) return {{"type", "object"}, {"properties", json::object()}};
  return base::parseJson(tool.schema).value().as_object();
}

}  // namespace

json::object textResult(std::string_view words) {
  return {{"content", json::array{text(words)}}};
}

void addCapabilities(json::object& capabilities, Era era) {
  capabilities["tools"] = {{"listChanged", true}};
  capabilities["prompts"] = {{"listChanged", true}};
  capabilities["resources"] = {{"subscribe", true}, {"listChanged", true}};
  capabilities["logging"] = json::object();
  (void)era;
}

void addTools(const Call& call, json::array& tools) {
  for (const Tool& tool : kTools) {
    if ((tool.eras & static_cast<uint8_t>(call.era)) == 0) continue;
    tools.push_back(json::object{
        {"name", tool.name}, {"description", tool.description}, {"inputSchema", schema(tool)}});
  }
}

bool hasTool(std::string_view name) {
  return find(name) != nullptr;
}

json::object schemaOf(std::string_view name) {
  const Tool* tool = find(name);
  return tool == nullptr ? json::object() : schema(*tool);
}

Task<Reply> callTool(Server& server, Call& call, std::string name, const json::object& params) {
  const Tool* tool = find(name);
  if (tool == nullptr || (tool->eras & static_cast<uint8_t>(call.era)) == 0) {
    co_return rpcError(code::kInvalidParams, "there is no such tool");
  }
  co_return co_await tool->handle(server, call, params);
}

void addResources(json::array& resources) {
  const auto add = [&](std::string_view uri, std::string_view name, std::string_view type) {
    resources.push_back(json::object{{"uri", uri}, {"name", name}, {"mimeType", type}});
  };
  add("test://static-text", "static text", "text/plain");
  add("test://static-binary", "static bytes", "image/png");
  add("test://watched-resource", "watched", "text/plain");
}

void addTemplates(json::array& templates) {
  templates.push_back(json::object{{"uriTemplate", "test://template/{id}/data"},
                                   {"name", "template"},
                                   {"mimeType", "application/json"}});
}

std::optional<json::object> readResource(std::string_view uri) {
  json::object found{{"uri", uri}, {"mimeType", "text/plain"}};
  constexpr std::string_view kOpen = "test://template/";
  constexpr std::string_view kClose = "/data";
  if (uri == "test://static-text") {
    found["text"] = "This is the content of the static text resource.";
  } else if (uri == "test://watched-resource") {
    found["text"] = "watched";
  } else if (uri == "test://static-binary") {
    found["mimeType"] = "image/png";
    found["blob"] = kPng;
  } else if (uri.starts_with(kOpen) && uri.ends_with(kClose) &&
             uri.size() > kOpen.size() + kClose.size()) {
    const std::string id(uri.substr(kOpen.size(), uri.size() - kOpen.size() - kClose.size()));
    found["mimeType"] = "application/json";
    found["text"] = base::toJson(
        json::object{{"id", id}, {"templateTest", true}, {"data", "Data for ID: " + id}});
  } else {
    return std::nullopt;
  }
  return json::object{
      {"contents", json::array{std::move(found)}}, {"ttlMs", 0}, {"cacheScope", "public"}};
}

namespace {

struct Prompt {
  std::string_view name;
  std::vector<std::string_view> arguments;
};

const std::vector<Prompt>& allPrompts() {
  static const std::vector<Prompt> kPrompts = {
      {"test_simple_prompt", {}},
      {"test_prompt_with_arguments", {"arg1", "arg2"}},
      {"test_prompt_with_embedded_resource", {"resourceUri"}},
      {"test_prompt_with_image", {}},
      {"test_input_required_result_prompt", {}}};
  return kPrompts;
}

json::object message(json::object block) {
  return {{"role", "user"}, {"content", std::move(block)}};
}

}  // namespace

void addPrompts(json::array& prompts) {
  for (const Prompt& prompt : allPrompts()) {
    if (prompt.name == "test_input_required_result_prompt") continue;
    json::array arguments;
    for (const std::string_view name : prompt.arguments)
      arguments.push_back(
          json::object{{"name", name}, {"description", "an argument"}, {"required", true}});
    prompts.push_back(json::object{{"name", prompt.name},
                                   {"description", "for the suite"},
                                   {"arguments", std::move(arguments)}});
  }
}

bool hasPrompt(std::string_view name) {
  return std::ranges::find(allPrompts(), name, &Prompt::name) != allPrompts().end();
}

Task<Reply> getPrompt(Server& server, Call& call, const json::object& params) {
  const std::string name = textIn(params, "name");
  const json::object& arguments = objectIn(params, "arguments");
  if (name == "test_input_required_result_prompt") {
    if (call.modern()) co_return co_await inputPrompt(server, call, params);
    co_return rpcError(code::kInvalidParams, "there is no such prompt");
  }
  json::array messages;
  if (name == "test_simple_prompt") {
    messages.push_back(message(text("This is a simple prompt for testing.")));
  } else if (name == "test_prompt_with_arguments") {
    messages.push_back(message(text("Prompt with arguments: arg1='" + textIn(arguments, "arg1") +
                                    "', arg2='" + textIn(arguments, "arg2") + "'")));
  } else if (name == "test_prompt_with_image") {
    messages.push_back(message(image()));
    messages.push_back(message(text("Please analyze the image above.")));
  } else {
    messages.push_back(message(embedded(textIn(arguments, "resourceUri"), "text/plain",
                                        "Embedded resource content for testing.")));
    messages.push_back(message(text("Please process the embedded resource above.")));
  }
  co_return json::object{{"messages", std::move(messages)}};
}

}  // namespace cloister::api::mcp::fixtures
