// SPDX-License-Identifier: Apache-2.0
// prompts/* and completion/complete: texts to begin a conversation with, and the ids that complete
// an argument.
#include <algorithm>

#include "api/mcp/server.h"
#include "api/mcp/text.h"

namespace cloister::api::mcp {
namespace {

constexpr size_t kMaxArgument = 4096;
constexpr uint32_t kLook = 500;       // the newest ids to search
constexpr size_t kCompletions = 100;  // the protocol's most

// `text` with {name} replaced, and {name|words {} words} where the argument is given.
std::string fill(std::string_view text, const json::object& arguments) {
  std::string out;
  while (!text.empty()) {
    const size_t open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open + 1);
    const size_t end = text.find_first_of("}|");
    const std::string given = textIn(arguments, text.substr(0, end));
    const bool optional = text[end] == '|';
    text.remove_prefix(end + 1);
    if (!optional) {
      out += given;
      continue;
    }
    const size_t hole = text.find("{}");
    const size_t close = text.find('}', hole + 2);
    if (!given.empty()) {
      out += std::string(text.substr(0, hole)) + given +
             std::string(text.substr(hole + 2, close - hole - 2));
    }
    text.remove_prefix(close + 1);
  }
  return out;
}

const json::object* find(const json::array& all, std::string_view name) {
  for (const json::value& each : all) {
    if (textIn(each.get_object(), "name") == name) return &each.get_object();
  }
  return nullptr;
}

// -32602 for a missing argument, or an argument other than text.
Rpc<json::object> checkArguments(const json::object& prompt, const json::object& given) {
  json::object arguments;
  for (const json::value& each : prompt.at("arguments").as_array()) {
    const json::object& argument = each.get_object();
    const std::string name = textIn(argument, "name");
    const std::string text = plainText(textIn(given, name));
    if (text.empty() && argument.at("required").as_bool()) {
      return rpcError(code::kInvalidParams, "arguments." + name + ": is required, as a string");
    }
    if (text.size() > kMaxArgument) {
      return rpcError(code::kInvalidParams, "arguments." + name + ": at most 4096 bytes");
    }
    arguments[name] = text;
  }
  return arguments;
}

std::vector<std::string> sessionIds(Server& server, const Call& call) {
  store::SessionQuery query;
  query.limit = kLook;
  query.status = model::SessionStatus::kRunning;
  std::vector<std::string> ids;
  const auto sessions = server.rest().sessions.list(call.principal, query);
  for (size_t i = 0; sessions && i < sessions->size(); ++i)
    ids.push_back((*sessions)[i].id);
  return ids;
}

std::vector<std::string> artifactIds(Server& server, const Call& call) {
  store::ArtifactQuery query;
  query.limit = kLook;
  std::vector<std::string> ids;
  const auto artifacts = server.rest().artifacts.list(call.principal, query);
  for (size_t i = 0; artifacts && i < artifacts->size(); ++i)
    ids.push_back((*artifacts)[i].ref.id);
  return ids;
}

}  // namespace

Task<Reply> listPrompts(Server& server, Call& call, const json::object& params) {
  (void)call;
  if (params.contains("cursor")) {
    co_return rpcError(code::kInvalidParams, "cursor: not one of this server");
  }
  json::array all = server.definitions().at("prompts").as_array();
  for (json::value& prompt : all)
    prompt.get_object().erase("text");
  server.extras().listPrompts(all);
  co_return json::object{
      {"prompts", std::move(all)}, {"ttlMs", 3'600'000}, {"cacheScope", "private"}};
}

Task<Reply> getPrompt(Server& server, Call& call, const json::object& params) {
  const std::string name = textIn(params, "name");
  if (const ExtraPrompt* extra = server.extras().prompt(name)) {
    co_return co_await extra->handle(server, call, params);
  }
  const json::object* prompt = find(server.definitions().at("prompts").as_array(), name);
  if (prompt == nullptr) {
    co_return rpcError(code::kInvalidParams, "there is no prompt \"" + name.substr(0, 64) +
                                                 "\"; prompts/list names them");
  }
  const Rpc<json::object> arguments = checkArguments(*prompt, objectIn(params, "arguments"));
  if (!arguments) co_return std::unexpected(arguments.error());
  json::object content{{"type", "text"}, {"text", fill(textIn(*prompt, "text"), *arguments)}};
  json::array messages{json::object{{"role", "user"}, {"content", std::move(content)}}};
  co_return json::object{{"description", prompt->at("description")},
                         {"messages", std::move(messages)}};
}

Task<Reply> complete(Server& server, Call& call, const json::object& params) {
  const json::object& argument = objectIn(params, "argument");
  const std::string name = textIn(argument, "name");
  const std::string begun = textIn(argument, "value");
  const std::string type = textIn(objectIn(params, "ref"), "type");
  if (type != "ref/prompt" && type != "ref/resource") {
    co_return rpcError(code::kInvalidParams, "ref.type: must be ref/prompt or ref/resource");
  }
  std::vector<std::string> known;
  if (name == "session_id" && call.may(Permission::kSessionRead)) known = sessionIds(server, call);
  if (name == "artifact_id" && call.may(Permission::kArtifactRead))
    known = artifactIds(server, call);
  std::erase_if(known, [&](const std::string& id) { return !id.starts_with(begun); });
  json::array values;
  for (size_t i = 0; i < std::min(known.size(), kCompletions); ++i)
    values.emplace_back(json::string(known[i]));
  json::object completion{{"values", std::move(values)},
                          {"total", known.size()},
                          {"hasMore", known.size() > kCompletions}};
  co_return json::object{{"completion", std::move(completion)}};
}

}  // namespace cloister::api::mcp
