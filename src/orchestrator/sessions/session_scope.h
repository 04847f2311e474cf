// SPDX-License-Identifier: Apache-2.0
// The capabilities needed by a request to a session's file server (model/capability.h). Pure.
#pragma once

#include <string>
#include <vector>

namespace cloister::orchestrator {

// `argv` in the format of wire/files.h; an unknown verb needs all capabilities.
std::vector<std::string> filesNeed(const std::vector<std::string>& argv);
// Whether such a request changes nothing.
bool onlyReads(const std::vector<std::string>& argv);

}  // namespace cloister::orchestrator
