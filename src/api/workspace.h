// SPDX-License-Identifier: Apache-2.0
// What REST and MCP have in common about a session's files: paths as they are asked for, and the
// answers of the file server (orchestrator/file_call.h), which come from inside a sandbox.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/http/http.h"
#include "base/json.h"
#include "base/result.h"
#include "orchestrator/sessions/file_call.h"

namespace cloister::api {

inline constexpr int64_t kMaxEntries = 10'000;  // of a list

using FileCallPtr = std::shared_ptr<orchestrator::FileCall>;

// As the sandbox takes them; it refuses what else is no path of a workspace.
Result<std::string> checkedPath(std::string path, const std::string& field);

// What the file server said of `path`, which `field` of the request had.
std::unexpected<Error> about(Error error, const std::string& doing, const std::string& path,
                             const std::string& field);

base::json::object entryObject(const wire::files::Entry& entry, const std::string& path);

// One entry, once the request is done.
Task<Result<wire::files::Entry>> onlyEntry(FileCallPtr call);

struct Listed {
  std::vector<wire::files::Entry> entries;  // sorted by path
  uint32_t left_out = 0;
};
Task<Result<Listed>> collect(FileCallPtr call);

// `path` in the directory `under`, for show: it may be any bytes.
std::string shown(const std::string& under, const std::string& path);

}  // namespace cloister::api
