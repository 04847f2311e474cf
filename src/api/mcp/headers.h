// SPDX-License-Identifier: Apache-2.0
// The HTTP headers that repeat members of a modern message (MCP-Protocol-Version, Mcp-Method,
// Mcp-Name, Mcp-Param-*), so that proxies need not read bodies. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "api/http/http.h"
#include "api/mcp/message.h"
#include "base/result.h"

namespace cloister::api::mcp {

// A header's meaning: without blanks around the value, and with "=?base64?…?=" decoded. kInvalid
// for bad base64.
Result<std::string> headerText(std::string_view value);

// The reason why the headers do not fit the message; nothing if they do.
std::optional<std::string> checkHeaders(const Request& request, const Message& message,
                                        std::string_view version);
// The same for the arguments marked with `x-mcp-header` in a tool's schema.
std::optional<std::string> checkParameters(const Request& request, const json::object& schema,
                                           const json::object& arguments);

}  // namespace cloister::api::mcp
