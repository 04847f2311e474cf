// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/fixtures.h"

namespace cloister::api::mcp::fixtures {

void addCapabilities(json::object&, Era) {}
void addTools(const Call&, json::array&) {}
bool hasTool(std::string_view) {
  return false;
}
Task<Reply> callTool(Server&, Call&, std::string, json::object) {
  co_return json::object();
}
const json::object* schemaOf(std::string_view) {
  return nullptr;
}
void addResources(json::array&) {}
void addTemplates(json::array&) {}
std::optional<json::object> readResource(std::string_view) {
  return std::nullopt;
}
void addPrompts(json::array&) {}
std::optional<Reply> getPrompt(Server&, Call&, const json::object&) {
  return std::nullopt;
}

}  // namespace cloister::api::mcp::fixtures
