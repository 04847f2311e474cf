// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/tool_names.h"

namespace cloister::api::mcp {
namespace {

constexpr std::string_view kPrefix = "sandbox.";

}  // namespace

Result<ToolNames> toolNamesFromText(std::string_view text) {
  if (text == "own") return ToolNames::kOwn;
  if (text == "seed") return ToolNames::kSeed;
  return fail(Code::kInvalid, "query parameter names: must be own or seed", "query.names");
}

std::string shownName(ToolNames names, std::string_view own) {
  return (names == ToolNames::kSeed ? std::string(kPrefix) : std::string()) + std::string(own);
}

std::string_view ownName(ToolNames names, std::string_view called) {
  if (names == ToolNames::kSeed && called.starts_with(kPrefix)) {
    called.remove_prefix(kPrefix.size());
  }
  return called;
}

}  // namespace cloister::api::mcp
