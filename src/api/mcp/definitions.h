// SPDX-License-Identifier: Apache-2.0
// spec/mcp.json for clients: its %NAMES% become the limits in force. Pure.
#pragma once

#include <string>
#include <string_view>

#include "api/mcp/server.h"

namespace cloister::api::mcp {

std::string fillIn(std::string_view definitions, const RestParts& rest, const Settings& settings);

}  // namespace cloister::api::mcp
