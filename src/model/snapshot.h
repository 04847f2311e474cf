// SPDX-License-Identifier: Apache-2.0
// Snapshot: the files of a session's workspace as they were at one moment, or all that was in its
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

// What every snapshot's id begins with, as newId() takes it.
inline constexpr char kSnapshotPrefix[] = "snap";

// Of a snapshot with all that ran: with what a session is to be made to go on as it. Of the limits
// those of its programs' time and output are nobody's.
struct SnapshotMemory {
  std::string runtime;
  std::string image;  // its name
  Limits limits;
};

struct Snapshot {
  std::string id;  // snap_…
  std::string tenant;
  std::string agent = {};  // that the session belongs to; not shown
  std::string session_id;  // whose workspace it is of
  std::string name;        // "" if none
  base::json::object metadata;
  uint64_t entries = 0;         // files, directories and links
  uint64_t bytes = 0;           // of all files
  uint64_t chunks = 0;          // the pieces they are kept in
  uint64_t added_bytes = 0;     // of those pieces and the manifest that the tenant did not have yet
  uint64_t manifest_bytes = 0;  // of the list of all that
  std::string sha256;           // of that list, which has the digest of every piece
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

// What a tenant may keep of them.
struct SnapshotQuota {
  uint64_t snapshots = 0;
  ArtifactQuota all;  // with its artifacts
};

// The body of POST /v1/sessions/{id}/snapshots.
struct SnapshotRequest {
  std::string name;
  base::json::object metadata;
  int64_t ttl_us = 0;   // 0: as long as may be
  bool memory = false;  // all that runs, and not the workspace alone
};
// kInvalid names the field.
Result<SnapshotRequest> parseSnapshotRequest(const base::json::object& body);

}  // namespace cloister::model
