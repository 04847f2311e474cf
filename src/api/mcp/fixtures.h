// SPDX-License-Identifier: Apache-2.0
// What the official conformance suite asks a server to have (@modelcontextprotocol/conformance):
// tools, resources and prompts that do nothing of use. Registered only by --mcp-conformance-fixtures,
// which is refused unless all listeners are local.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/mcp/server.h"

namespace cloister::api::mcp::fixtures {

void addCapabilities(json::object& capabilities, Era era);
void addTools(const Call& call, json::array& tools);
bool hasTool(std::string_view name);
// `params` of tools/call.
Task<Reply> callTool(Server& server, Call& call, std::string name, json::object params);
// The schema of a tool's arguments, nullptr if there is none.
const json::object* schemaOf(std::string_view name);

void addResources(json::array& resources);
void addTemplates(json::array& templates);
std::optional<json::object> readResource(std::string_view uri);

void addPrompts(json::array& prompts);
// Nothing for a prompt that is not one of these.
std::optional<Reply> getPrompt(Server& server, Call& call, const json::object& params);

}  // namespace cloister::api::mcp::fixtures
