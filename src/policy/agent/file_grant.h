// SPDX-License-Identifier: Apache-2.0
// The paths that an approval of a file operation opens: one file, or one directory with everything
// beneath it. The kernel (walls.h), a session's files and clients that ask ahead (validate.h) use
// the same pattern. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/agent/rules.h"

namespace cloister::policy {

// "/workspace/a" for a file; "/workspace/d/*" for "d/", for "d/*", and for known directories, as
// "/workspace". kInvalid: too long, or a pattern that the kernel cannot open.
Result<std::string> grantPattern(std::string_view path);

// Whether a sandbox can change any file of the pattern.
bool canChange(const std::string& pattern);

// Whether an approval of a file operation (model::operation) with the pattern opens anything in any
// sandbox. kInvalid gives the reason, and a better pattern.
Result<> opensAtAll(std::string_view operation, const std::string& pattern);

// Whether an approval of a file operation (model::operation) with the pattern opens anything for an
// agent with these rules. kInvalid gives the reason, and a better pattern.
Result<> opensFor(const AgentRules& rules, std::string_view operation, const std::string& pattern);

// Whether an approval to remove a single file helps only requests to a session's files, since
// programs may not remove the file.
bool isForRequestsAlone(const AgentRules& rules, std::string_view operation,
                        const std::string& pattern);
inline constexpr std::string_view kForRequestsAlone =
    "for requests to a session's files: programs may remove all files of a directory or none";

// A text for approvers: "it opens the file /workspace/a, to read". Null: the agent has no rules.
std::string openedBy(const AgentRules* rules, std::string_view operation,
                     const std::string& pattern);

// The parts of the path, or beneath the path, changeable in a sandbox at all; "" is the root.
std::vector<std::string> changeablePlaces(const std::string& path, bool beneath);

// Which rules count: only rules without exceptions, or all.
enum class Forbids : uint8_t { kForGood, kAtAll };
// The rule against changes by programs of the path, or beneath the path; null: none.
const PathRule* changeForbidden(const AgentRules& rules, const std::string& path, bool beneath,
                                Forbids which);

}  // namespace cloister::policy
