// SPDX-License-Identifier: Apache-2.0
// Shared by REST and MCP for a session's files: paths from requests, and answers of the file server
// (orchestrator/file_call.h), which come from inside a sandbox.
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

// The path in the sandbox's form. The sandbox itself refuses other paths outside of a workspace.
Result<std::string> checkedPath(std::string path, const std::string& field);

// The file server's error about `path`, a value of the request's `field`.
std::unexpected<Error> about(Error error, const std::string& doing, const std::string& path,
                             const std::string& field);

base::json::object entryObject(const wire::files::Entry& entry, const std::string& path);

// The only entry of the answer, once the request is done.
Task<Result<wire::files::Entry>> onlyEntry(FileCallPtr call);

struct Listed {
  std::vector<wire::files::Entry> entries;  // sorted by path
  uint32_t left_out = 0;
};
Task<Result<Listed>> collect(FileCallPtr call);

// `path` in the directory `under`, for display: a path may have any bytes.
std::string shown(const std::string& under, const std::string& path);

}  // namespace cloister::api
