// SPDX-License-Identifier: Apache-2.0
// What an approval of a file operation opens: one file, or one directory with all beneath it. The
// kernel (walls.h), a session's files and whoever asks ahead (validate.h) go by the same pattern.
// Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/agent/rules.h"

namespace cloister::policy {

// "/workspace/a" of a file; "/workspace/d/*" of "d/", of "d/*", and of a directory that is always
// one, as "/workspace". kInvalid: another pattern, which the kernel could not open, or too long.
Result<std::string> grantPattern(std::string_view path);

// Whether a sandbox can change anything of it.
bool canChange(const std::string& pattern);

// Whether an approval of a file operation (model::operation) with that pattern opens anything in
// any sandbox. kInvalid says why not, and what to name instead.
Result<> opensAtAll(std::string_view operation, const std::string& pattern);

// Whether an approval of a file operation (model::operation) with that pattern opens anything for
// an agent with these rules. kInvalid says why not, and what to name instead.
Result<> opensFor(const AgentRules& rules, std::string_view operation, const std::string& pattern);

// An approval to remove one file where programs may not: requests to a session's files alone may.
bool isForRequestsAlone(const AgentRules& rules, std::string_view operation,
                        const std::string& pattern);
inline constexpr std::string_view kForRequestsAlone =
    "for requests to a session's files: programs may remove all files of a directory or none";

// For who decides: "it opens the file /workspace/a, to read". Null: the agent is held to no rules.
std::string openedBy(const AgentRules* rules, std::string_view operation,
                     const std::string& pattern);

// What of the path, or beneath it, can be changed in a sandbox at all; "" is the root.
std::vector<std::string> changeablePlaces(const std::string& path, bool beneath);

// Which rules count: those that nobody may lift, or all.
enum class Forbids : uint8_t { kForGood, kAtAll };
// The rule that keeps programs from changing the path, or something beneath it; null: none.
const PathRule* changeForbidden(const AgentRules& rules, const std::string& path, bool beneath,
                                Forbids which);

}  // namespace cloister::policy
