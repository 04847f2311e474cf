// SPDX-License-Identifier: Apache-2.0
// Paths in requests of E2B's clients: absolute, or relative to the home directory.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::api::compat::e2b {

// The absolute path without empty, `.` and `..` components; "" is the home directory. A text: links
// are the sandbox's to judge.
std::string resolvedPath(std::string_view path);
// The path for the session's file server; kNotFound for a place that the server does not show.
Result<std::string> servedPath(std::string_view path, const std::string& field);

// The last component; "/" for the root.
std::string baseName(const std::string& path);

}  // namespace cloister::api::compat::e2b
