// SPDX-License-Identifier: Apache-2.0
// Words of the Model Context Protocol shared by all parts of this folder. Two eras: modern
// (2026-07-28, no state between requests) and legacy (initialize, sessions). Source:
// modelcontextprotocol.io/specification.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace cloister::api::mcp {

namespace json = base::json;

enum class Era : uint8_t { kLegacy = 1, kModern = 2 };

inline constexpr std::string_view kModernVersion = "2026-07-28";
inline constexpr std::string_view kPrimingVersion =
    "2025-11-25";  // streams begin with an empty event
inline constexpr std::string_view kOldestVersion = "2025-03-26";  // meant where no header says
inline constexpr std::array<std::string_view, 3> kLegacyVersions = {"2025-11-25", "2025-06-18",
                                                                    "2025-03-26"};

namespace meta {
inline constexpr std::string_view kVersion = "io.modelcontextprotocol/protocolVersion";
inline constexpr std::string_view kCapabilities = "io.modelcontextprotocol/clientCapabilities";
inline constexpr std::string_view kLogLevel = "io.modelcontextprotocol/logLevel";
inline constexpr std::string_view kServerInfo = "io.modelcontextprotocol/serverInfo";
inline constexpr std::string_view kSubscription = "io.modelcontextprotocol/subscriptionId";
}  // namespace meta

namespace code {
inline constexpr int kParse = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternal = -32603;
inline constexpr int kHeaderMismatch = -32020;
inline constexpr int kMissingCapability = -32021;
inline constexpr int kUnsupportedVersion = -32022;
}  // namespace code

bool isLegacyVersion(std::string_view version);
// {name, title, version}
json::object serverInfo();

}  // namespace cloister::api::mcp
