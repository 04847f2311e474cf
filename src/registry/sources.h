// SPDX-License-Identifier: Apache-2.0
// Sources: the mirrors of a registry and the registry itself, asked in this order. A source that
// lacks something, refuses or fails leaves the question to the next source; since all content is
// verified by its digest, no source needs trust. A source that cannot be reached is not asked
// again. One thread; blocks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "model/image.h"
#include "registry/client.h"
#include "registry/reference.h"

namespace cloister::registry {

// Bound of a manifest, an index or a list of referrers, as registries have it.
inline constexpr size_t kMostManifest = size_t{4} << 20;

class Sources {
 public:
  // The registry of the reference and its mirrors. kInvalid names the setting.
  static Result<Sources> of(const Reference& reference, const model::ImageSettings& settings,
                            base::Monotonic deadline);

  // The manifest or index with this digest.
  Result<Document> manifest(const std::string& digest);
  // The manifest or index with this tag, or nullopt. Its content is not verified.
  Result<std::optional<Document>> tagged(const std::string& tag);
  // The list of referrers of a manifest, or nullopt: the registry has no such list. Its content is
  // not verified.
  Result<std::optional<Document>> referrers(const std::string& digest);
  // A blob into `sink`.
  Result<> blob(const std::string& digest, uint64_t size, Sink& sink);
  // A blob of at most `most` bytes.
  Result<std::string> smallBlob(const std::string& digest, uint64_t size, size_t most);

 private:
  struct Source {
    Client client;
    std::string repository;
    std::optional<Error> down = {};  // why it cannot be reached
  };
  // `lacking`: set if a source does not have it.
  template <class T>
  Result<T> firstOf(const auto& ask, bool* lacking = nullptr);
  Result<std::optional<Document>> optionally(const std::string& rest);

  std::vector<Source> sources_;
};

// Reads a mirror's URL: "https://HOST[:PORT][/PREFIX]", or http:// of this machine's loopback.
Result<net::Url> parseMirror(std::string_view text);

}  // namespace cloister::registry
