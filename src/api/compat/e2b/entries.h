// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox in E2B's form, and the questions about a path that several calls share.
#pragma once

#include <string>

#include "api/compat/e2b/sandbox.h"
#include "api/workspace.h"

namespace cloister::api::compat::e2b {

// EntryInfo of the envd protocol. `path` is absolute.
base::json::object entryInfo(const wire::files::Entry& entry, const std::string& path);

// The path in a request, for answers and for the file server.
struct Place {
  std::string shown;   // absolute
  std::string served;  // for the file server
};
Result<Place> placeOf(std::string_view path, const std::string& field);

// Asks the file server of a sandbox about one place.
class PlaceCalls {
 public:
  PlaceCalls(RestParts& parts, const model::Principal& who, std::string session)
      : parts_(parts), who_(who), session_(std::move(session)) {}

  Task<Result<FileCallPtr>> ask(orchestrator::FileRequest request) const;
  Task<Result<wire::files::Entry>> stat(const Place& place) const;
  // nullopt: nothing is there.
  Task<Result<std::optional<wire::files::Entry>>> look(const Place& place) const;
  Task<Result<wire::files::Entry>> makeDirectory(const Place& place) const;
  // The directory that contains the place, with its parents.
  Task<Result<>> makeParent(const Place& place) const;

 private:
  RestParts& parts_;
  model::Principal who_;
  std::string session_;
};

}  // namespace cloister::api::compat::e2b
