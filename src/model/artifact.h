// SPDX-License-Identifier: Apache-2.0
// Artifact: a stored file of an agent of a tenant, which a run left behind or a client uploaded.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "model/execution.h"

namespace cloister::model {

// A tenant's artifact content. Equal contents (SHA-256, 64 lower-case hex digits) of a tenant are
// stored once.
struct BlobName {
  std::string tenant;
  std::string sha256;

  friend auto operator<=>(const BlobName&, const BlobName&) = default;
};

struct Artifact {
  ArtifactRef ref;
  std::string tenant;
  std::string agent = {};    // the tenant's agent that made the artifact; not shown
  std::string execution_id;  // "" for an upload
  int64_t created_at = 0;    // wall-clock microseconds

  [[nodiscard]] BlobName blob() const { return {tenant, ref.sha256}; }
};

// A tenant's limits.
struct ArtifactQuota {
  uint64_t artifacts = 0;
  uint64_t bytes = 0;
};

// ArtifactRef's members, `execution_id`, `created_at` and `expires_at`.
base::json::object toJsonObject(const Artifact& artifact);

}  // namespace cloister::model
