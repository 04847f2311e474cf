// SPDX-License-Identifier: Apache-2.0
// The fake runtime's file server (wire/files.h), over files in memory: without directories of its
// own, and without archives.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/run_request.h"

namespace cloister::runtime {

// Serves a request and returns an errno; the answer goes to `out`.
int serveFakeFiles(std::vector<model::FileSpec>& files, const std::vector<std::string>& request,
                   const std::string& input, std::string& out);
// The text of a failed file server on stderr; wire::files::failure() reads the text.
std::string fakeFailure(int error, std::string_view what);

}  // namespace cloister::runtime
