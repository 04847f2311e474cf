// SPDX-License-Identifier: Apache-2.0
// Paths that come from a sandbox or a client, for people and headers. Pure; thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace cloister::orchestrator {

// A path that is safe to show and to put into a header: anything that is not UTF-8, or has control
// or direction-changing characters, is percent-escaped. "" for a path that is not relative and
// within the workspace.
std::string displayPath(std::string_view path);

}  // namespace cloister::orchestrator
