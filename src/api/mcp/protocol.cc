// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/protocol.h"

#include <algorithm>

#include "base/version.h"

namespace cloister::api::mcp {

bool isLegacyVersion(std::string_view version) {
  return std::ranges::find(kLegacyVersions, version) != kLegacyVersions.end();
}

json::object serverInfo() {
  return {{"name", "cloister"}, {"title", "Cloister"}, {"version", base::version()}};
}

}  // namespace cloister::api::mcp
