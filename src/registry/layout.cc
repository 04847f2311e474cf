// SPDX-License-Identifier: Apache-2.0
#include "registry/layout.h"

#include <sys/stat.h>

#include <utility>

#include "base/file.h"
#include "base/json.h"

namespace cloister::registry {
namespace {

namespace json = base::json;
constexpr mode_t kMode = 0600;

}  // namespace

Result<Layout> Layout::make(std::string directory) {
  for (const char* part : {"", "/blobs", "/blobs/sha256"}) {
    const std::string path = directory + part;
    if (::mkdir(path.c_str(), 0700) != 0) return failErrno("making " + path);
  }
  return Layout(std::move(directory));
}

std::string Layout::path(const std::string& digest) const {
  return directory_ + "/blobs/sha256/" + digest.substr(digest.find(':') + 1);
}

Result<> Layout::add(const std::string& digest, std::string_view bytes) const {
  return base::writeFileAtomic(path(digest), bytes, kMode);
}

Result<> Layout::finish(const std::string& manifest, uint64_t size, std::string_view type) const {
  const json::object index{
      {"schemaVersion", 2},
      {"manifests",
       json::array{json::object{{"mediaType", type}, {"digest", manifest}, {"size", size}}}}};
  TRY(base::writeFileAtomic(directory_ + "/oci-layout", R"({"imageLayoutVersion":"1.0.0"})",
                            kMode));
  return base::writeFileAtomic(directory_ + "/index.json", base::toJson(index), kMode);
}

}  // namespace cloister::registry
