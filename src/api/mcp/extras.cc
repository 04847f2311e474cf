// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/extras.h"

#include <algorithm>

namespace cloister::api::mcp {

const ExtraTool* Extras::tool(std::string_view name) const {
  const auto found = std::ranges::find(tools, name, &ExtraTool::name);
  return found == tools.end() ? nullptr : &*found;
}

const ExtraPrompt* Extras::prompt(std::string_view name) const {
  const auto found = std::ranges::find(prompts, name, &ExtraPrompt::name);
  return found == prompts.end() ? nullptr : &*found;
}

void Extras::listTools(Era era, json::array& into) const {
  for (const ExtraTool& tool : tools) {
    if ((tool.eras & static_cast<uint8_t>(era)) == 0) continue;
    into.push_back(json::object{
        {"name", tool.name}, {"description", tool.description}, {"inputSchema", tool.schema}});
  }
}

void Extras::listPrompts(json::array& into) const {
  for (const ExtraPrompt& prompt : prompts) {
    if (!prompt.listed) continue;
    json::array arguments;
    for (const std::string& name : prompt.arguments)
      arguments.push_back(
          json::object{{"name", name}, {"description", "an argument"}, {"required", true}});
    into.push_back(json::object{{"name", prompt.name},
                                {"description", prompt.description},
                                {"arguments", std::move(arguments)}});
  }
}

}  // namespace cloister::api::mcp
