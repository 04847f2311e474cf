// SPDX-License-Identifier: Apache-2.0
// The names under which a client sees the tools, chosen by the query parameter `names` of /mcp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::api::mcp {

enum class ToolNames : uint8_t {
  kOwn,   // "run"
  kSeed,  // "sandbox.run", by `names=seed`
};

// The value of `names`; kInvalid for an unknown value.
Result<ToolNames> toolNamesFromText(std::string_view text);

// The shown name of the tool `own`.
std::string shownName(ToolNames names, std::string_view own);
// The own name of a called tool. A client may call a tool by the own name, too.
std::string_view ownName(ToolNames names, std::string_view called);

}  // namespace cloister::api::mcp
