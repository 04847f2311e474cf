// SPDX-License-Identifier: Apache-2.0
// Paths from a sandbox or a client, made safe for people and headers. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace cloister::orchestrator {

// A path for messages and headers: bytes outside UTF-8, control characters and direction-changing
// characters are percent-escaped. "" for an absolute path, or a path out of the workspace.
std::string displayPath(std::string_view path);
// Whether it escapes the path.
bool isEscaped(std::string_view path);

// The same for a path of a file request (wire/files.h), which may begin with a root. A root itself
// is shown whole; the workspace is "/workspace".
std::string displayFilePath(std::string_view path);

}  // namespace cloister::orchestrator
