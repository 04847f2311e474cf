// SPDX-License-Identifier: Apache-2.0
// Tools, resources and prompts that a program adds to those of spec/mcp.json. The server has none
// of its own: Server::offer() takes them before the server's routes are made.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http/http.h"
#include "api/mcp/message.h"

namespace cloister::api::mcp {

class Server;
struct Call;

// Answers a request of which `params` are the parameters.
using ExtraHandler = Task<Reply> (*)(Server&, Call&, const json::object& params);

struct ExtraTool {
  std::string name;
  uint8_t eras = 0;  // of Era; the other era has no such tool
  std::string description;
  json::object schema;  // of the arguments
  ExtraHandler handle = nullptr;
};

struct ExtraPrompt {
  std::string name;
  std::string description;
  std::vector<std::string> arguments;  // all are required
  bool listed = true;                  // prompts/list names it
  ExtraHandler handle = nullptr;
};

struct Extras {
  bool anonymous = false;     // clients without a credential may use them, and nothing else
  bool changes = false;       // clients may listen for changes of them
  json::object capabilities;  // what the server declares besides; these replace its own
  std::vector<ExtraTool> tools;
  std::vector<ExtraPrompt> prompts;
  json::array resources;  // as resources/list shows them
  json::array templates;  // as resources/templates/list shows them
  // The result of resources/read; nullopt for a resource that is none of these.
  std::optional<json::object> (*read)(std::string_view uri) = nullptr;

  // nullptr: none of that name
  [[nodiscard]] const ExtraTool* tool(std::string_view name) const;
  [[nodiscard]] const ExtraPrompt* prompt(std::string_view name) const;

  // What they add to the lists of the server's own.
  void listTools(Era era, json::array& into) const;
  void listPrompts(json::array& into) const;
};

}  // namespace cloister::api::mcp
