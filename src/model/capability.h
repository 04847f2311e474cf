// SPDX-License-Identifier: Apache-2.0
// Capabilities: the needs of a tool and the rights of a session, in the words of agents' operations
// (kAgentOperations of model/agent_sandbox.h). Pure.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

namespace capability {
inline constexpr std::string_view kCommand = "command_execution";  // any program, any code
inline constexpr std::string_view kFileRead = "file_read";
inline constexpr std::string_view kFileWrite = "file_write";  // making files and directories, too
inline constexpr std::string_view kFileDelete = "file_delete";
inline constexpr std::string_view kNetwork = "network";  // its own connections, and to its ports
}  // namespace capability
inline constexpr std::array<std::string_view, 5> kCapabilities = {
    capability::kCommand, capability::kFileDelete, capability::kFileRead, capability::kFileWrite,
    capability::kNetwork};

// A sorted list of unique capabilities. nullopt if the member is absent; kInvalid for an empty list
// or an unknown name, listing the known names.
Result<std::optional<std::vector<std::string>>> readCapabilities(base::ObjectReader& reader,
                                                                 std::string_view name);

// "command_execution, file_read"
std::string capabilityNames(const std::vector<std::string>& capabilities);

}  // namespace cloister::model
