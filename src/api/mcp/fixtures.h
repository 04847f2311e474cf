// SPDX-License-Identifier: Apache-2.0
// What the official conformance suite asks a server to have (@modelcontextprotocol/conformance):
// tools, resources and prompts that do nothing of use. Registered only by
// --mcp-conformance-fixtures, which is refused unless all listeners are local.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/mcp/server.h"

namespace cloister::api::mcp::fixtures {

struct Tool {
  std::string_view name;
  uint8_t eras;  // of Era
  std::string_view description;
  std::string_view schema;  // JSON; "" for no arguments
  Task<Reply> (*handle)(Server&, Call&, const json::object& params);
};

void addCapabilities(json::object& capabilities, Era era);
void addTools(const Call& call, json::array& tools);
bool hasTool(std::string_view name);
// `params` of tools/call.
Task<Reply> callTool(Server& server, Call& call, std::string name, const json::object& params);
// The schema of a tool's arguments; empty if there is none.
json::object schemaOf(std::string_view name);

void addResources(json::array& resources);
void addTemplates(json::array& templates);
std::optional<json::object> readResource(std::string_view uri);

void addPrompts(json::array& prompts);
bool hasPrompt(std::string_view name);
Task<Reply> getPrompt(Server& server, Call& call, const json::object& params);

// In fixtures_ask.cc: those that ask the client.
json::object textResult(std::string_view text);
Task<Reply> sampling(Server& server, Call& call, const json::object& params);
Task<Reply> elicit(Server& server, Call& call, const json::object& params);
Task<Reply> elicitDefaults(Server& server, Call& call, const json::object& params);
Task<Reply> elicitEnums(Server& server, Call& call, const json::object& params);
Task<Reply> missingCapability(Server& server, Call& call, const json::object& params);
Task<Reply> streamingElicitation(Server& server, Call& call, const json::object& params);
Task<Reply> inputElicitation(Server& server, Call& call, const json::object& params);
Task<Reply> inputSampling(Server& server, Call& call, const json::object& params);
Task<Reply> inputRoots(Server& server, Call& call, const json::object& params);
Task<Reply> inputState(Server& server, Call& call, const json::object& params);
Task<Reply> inputMultiple(Server& server, Call& call, const json::object& params);
Task<Reply> inputRounds(Server& server, Call& call, const json::object& params);
Task<Reply> inputCapabilities(Server& server, Call& call, const json::object& params);
Task<Reply> inputPrompt(Server& server, Call& call, const json::object& params);

}  // namespace cloister::api::mcp::fixtures
