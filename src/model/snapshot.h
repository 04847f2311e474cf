// SPDX-License-Identifier: Apache-2.0
// Snapshot: the files of a session's workspace at one moment, or the full state of the session's
// sandbox, kept for the tenant.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "model/artifact.h"
#include "model/limits.h"

namespace cloister::model {

// The prefix of a snapshot's id, for newId().
inline constexpr char kSnapshotPrefix[] = "snap";

// For a snapshot with running programs: the properties of a session that resumes the snapshot. The
// limits of programs' time and output are unused.
struct SnapshotMemory {
  std::string runtime;
  std::string image;  // its name
  Limits limits;
};

struct Snapshot {
  std::string id;  // snap_…
  std::string tenant;
  std::string agent = {};  // the session's agent; not shown
  std::string session_id;  // the session whose workspace was saved
  std::string name;        // "" if none
  base::json::object metadata;
  uint64_t entries = 0;         // files, directories and links
  uint64_t bytes = 0;           // of all files
  uint64_t chunks = 0;          // number of stored pieces
  uint64_t added_bytes = 0;     // bytes of pieces and manifest new to the tenant
  uint64_t manifest_bytes = 0;  // of the list of all pieces
  std::string sha256;           // of the list, which includes the digest of each piece
  int64_t created_at = 0;       // wall-clock microseconds
  int64_t expires_at = 0;       // 0: never
  std::optional<SnapshotMemory> memory = {};  // then `entries` and `bytes` are of its image

  [[nodiscard]] BlobName manifest() const { return {tenant, sha256}; }
};

base::json::object toJsonObject(const Snapshot& snapshot);

// A piece of a snapshot's files.
struct SnapshotChunk {
  std::string sha256;
  uint64_t size = 0;
};

// A tenant's limits.
struct SnapshotQuota {
  uint64_t snapshots = 0;
  ArtifactQuota all;  // with its artifacts
};

// The body of POST /v1/sessions/{id}/snapshots.
struct SnapshotRequest {
  std::string name;
  base::json::object metadata;
  int64_t ttl_us = 0;   // 0: as long as may be
  bool memory = false;  // includes running programs, not only the workspace
};
// kInvalid names the field.
Result<SnapshotRequest> parseSnapshotRequest(const base::json::object& body);

}  // namespace cloister::model
