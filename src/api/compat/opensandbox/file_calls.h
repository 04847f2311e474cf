// SPDX-License-Identifier: Apache-2.0
// Requests to the files of a sandbox (api/workspace.h), for the routes of files and directories. On
// the io thread.
#pragma once

#include <string>
#include <vector>

#include "api/compat/opensandbox/desk.h"
#include "api/compat/opensandbox/file_json.h"
#include "api/workspace.h"

namespace cloister::api::compat::opensandbox {

// The user of all programs and files of a sandbox, by the name in its /etc/passwd.
inline constexpr std::string_view kUser = "user";

// A path of a request, for answers and for the file server.
struct Place {
  std::string shown;   // absolute
  std::string inside;  // as wire/files.h wants
  std::string field;   // of the request
};
Result<Place> placeOf(std::string_view path, const std::string& field);
// The parameters `path` of the query: one, or 1 to kMostPaths.
inline constexpr size_t kMostPaths = 256;
Result<Place> placeIn(const Request& request);
Result<std::vector<Place>> placesIn(const Request& request);

using FileEntry = wire::files::Entry;

// Asks the sandbox of the request's path. `argv`: as wire/files.h has them.
Task<Result<FileCallPtr>> askFiles(Desk& desk, Request& request, orchestrator::FileRequest wanted);

Task<Result<FileEntry>> statOf(Desk& desk, Request& request, Place place);
// The entries beneath a directory.
Task<Result<Listed>> listBelow(Desk& desk, Request& request, Place place, int64_t depth);
Task<Result<>> removeAt(Desk& desk, Request& request, Place place, bool recursive);
// Sets the mode by chmod(1) in the sandbox: the file server has no request for that.
Task<Result<>> changeMode(Desk& desk, Request& request, Place place, uint32_t mode);

}  // namespace cloister::api::compat::opensandbox
