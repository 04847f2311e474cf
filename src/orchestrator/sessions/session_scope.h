// SPDX-License-Identifier: Apache-2.0
// The capabilities that a request to a session's file server needs (model/capability.h). Pure.
#pragma once

#include <string>
#include <vector>

namespace cloister::orchestrator {

// `argv` in the words of wire/files.h; a verb that is not known here needs all of them.
std::vector<std::string> filesNeed(const std::vector<std::string>& argv);
// Whether such a request changes nothing.
bool onlyReads(const std::vector<std::string>& argv);

}  // namespace cloister::orchestrator
