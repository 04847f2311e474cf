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

// The root that a request names in `root`, or nullptr without the parameter.
Result<const model::FileRoot*> rootOf(const Request& request);

// The path in the sandbox's form (wire/files.h). A relative path begins in `root`, or in the
// workspace without one. An absolute path begins with any root, or with `root`. The sandbox itself
// refuses paths that lead out of their root.
Result<std::string> checkedPath(std::string path, const std::string& field,
                                const model::FileRoot* root = nullptr);

// The file server's error about `path`, a value of the request's `field`.
std::unexpected<Error> about(Error error, const std::string& doing, const std::string& path,
                             const std::string& field);

// The entry at `path` in the directory `under`, with its path as of shown(). An escaped path says
// so: a name may have such letters by itself.
base::json::object entryObject(const wire::files::Entry& entry, const std::string& under,
                               const std::string& path, const model::FileRoot* root);

// The only entry of the answer, once the request is done.
Task<Result<wire::files::Entry>> onlyEntry(FileCallPtr call);

struct Listed {
  std::vector<wire::files::Entry> entries;  // sorted by path
  uint32_t left_out = 0;
};
Task<Result<Listed>> collect(FileCallPtr call);

// `path` in the directory `under`, for display: a path may have any bytes. With a `root`, relative
// to the root.
std::string shown(const std::string& under, const std::string& path,
                  const model::FileRoot* root = nullptr);

}  // namespace cloister::api
