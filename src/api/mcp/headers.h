// SPDX-License-Identifier: Apache-2.0
// The HTTP headers that repeat what a modern message says (MCP-Protocol-Version, Mcp-Method,
// Mcp-Name, Mcp-Param-*), so that proxies need not read bodies. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/http/http.h"
#include "api/mcp/message.h"
#include "base/result.h"

namespace cloister::api::mcp {

// A header's value as it is meant: without blanks around it, and decoded if it is
// "=?base64?…?=". kInvalid for bad base64.
Result<std::string> headerText(std::string_view value);

// Why the headers do not fit the message; nothing if they do.
std::optional<std::string> checkHeaders(const Request& request, const Message& message,
                                        std::string_view version);
// The same for the arguments that a tool's schema marks with `x-mcp-header`.
std::optional<std::string> checkParameters(const Request& request, const json::object& schema,
                                           const json::object& arguments);

}  // namespace cloister::api::mcp
