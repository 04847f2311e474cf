// SPDX-License-Identifier: Apache-2.0
// Artifacts to files. Their paths were chosen inside a sandbox: nothing is written outside the
// directory the user named, no link is followed, no file is replaced through one.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "net/blocking_client.h"

namespace cloister::cli {

// Creates (or truncates) the file `path` below `dir`, with the directories between. kInvalid for a
// path that is absolute, empty, or has "..", "." or empty components; an error for a link.
Result<Fd> createBelow(const std::string& dir, std::string_view path);

// Downloads each of `execution`'s artifacts below `dir`; the number of files.
Result<size_t> downloadArtifacts(net::BlockingClient& client, const base::json::object& execution,
                                 const std::string& dir);

// Writes the bytes of an artifact to `file`, and compares their digest with the server's.
// `artifact` is the server's description.
Result<> fetchArtifact(net::BlockingClient& client, const base::json::object& artifact, int file);

}  // namespace cloister::cli
