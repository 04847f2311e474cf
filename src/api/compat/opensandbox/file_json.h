// SPDX-License-Identifier: Apache-2.0
// Files in execd's form: paths, modes and FileInfo. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "orchestrator/sessions/file_call.h"

namespace cloister::api::compat::opensandbox {

// The absolute path without empty, "." and ".." components; a relative path begins in the
// workspace. kInvalid for an empty path.
Result<std::string> plainPath(std::string_view path, const std::string& field);
// `path` of an entry beneath the absolute path `under`.
std::string below(const std::string& under, const std::string& path);

// 0644 ↔ 644: the digits are octal, the number looks decimal.
int64_t shownMode(uint32_t mode);
Result<uint32_t> readMode(int64_t shown, const std::string& field);

// {"mode", "owner", "group"}; only the sandbox's own user may be the owner.
struct FileOwnership {
  std::optional<uint32_t> mode;
};
Result<FileOwnership> readOwnership(base::ObjectReader& reader, std::string_view user);

base::json::object fileInfo(const wire::files::Entry& entry, const std::string& path,
                            std::string_view user);

// Whether the name or the relative path matches the pattern: "**" crosses directories, "*" and "?"
// do not, "[a-z]" is one character.
bool matchesPattern(std::string_view pattern, std::string_view path);

// All occurrences of `from`, which is not empty, replaced; the second: their number.
std::pair<std::string, uint64_t> replacedAll(std::string text, std::string_view from,
                                             std::string_view to);

}  // namespace cloister::api::compat::opensandbox
