// SPDX-License-Identifier: Apache-2.0
// OpenSandbox's lifecycle API as values: requests read strictly, sandboxes and snapshots shown. A
// sandbox of OpenSandbox is a session. Pure.
//
// The parts of a request without a place in a session are kept in the session's metadata, below
// kReserved; a client cannot name these.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/session.h"
#include "model/snapshot.h"

namespace cloister::api::compat::opensandbox {

inline constexpr std::string_view kReserved = "opensandbox.io/";
inline constexpr std::string_view kImage = "opensandbox.io/image";            // as asked
inline constexpr std::string_view kEntrypoint = "opensandbox.io/entrypoint";  // a JSON array
inline constexpr std::string_view kPlatform = "opensandbox.io/platform";      // a JSON object
inline constexpr std::string_view kNetwork = "opensandbox.io/network";        // the asked policy
inline constexpr std::string_view kExtend = "opensandbox.io/extend-seconds";
inline constexpr std::string_view kCut = "opensandbox.io/cut";  // what was asked for and not given

// A rule of an egress policy: a name or a pattern "*.name".
struct EgressRule {
  bool allow = true;
  std::string target;

  friend bool operator==(const EgressRule&, const EgressRule&) = default;
};
struct EgressPolicy {
  bool allow_by_default = true;
  std::vector<EgressRule> rules;

  friend bool operator==(const EgressPolicy&, const EgressPolicy&) = default;
};
inline constexpr size_t kMostRules = 64;

Result<EgressPolicy> parseEgressPolicy(const base::json::object& object, const std::string& at);
Result<std::vector<EgressRule>> parseEgressRules(const base::json::array& rules,
                                                 const std::string& at);
base::json::object toJsonObject(const EgressPolicy& policy);

// The body of POST /v1/sandboxes.
struct CreateRequest {
  std::string image;
  std::string snapshot;
  std::string pool;
  std::vector<std::string> entrypoint;
  std::optional<uint32_t> cpu_millis;
  std::optional<uint64_t> memory_mb;
  std::optional<int64_t> timeout_seconds;  // nullopt: as long as the service permits
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> metadata;
  std::optional<EgressPolicy> network;
  std::optional<base::json::object> platform;
  std::optional<int64_t> extend_seconds;  // each access moves the end to so many seconds later
};
// kInvalid names the field; kUnsupported for a part that this service does not offer.
Result<CreateRequest> parseCreate(const base::json::object& body);

// "500m" or "2" cores, in thousandths; "512Mi", "1G" or bytes, in MiB, rounded up.
Result<uint32_t> parseCpu(std::string_view text);
Result<uint64_t> parseMemoryMb(std::string_view text);

// True for a process that only keeps a container alive, as clients send by default.
bool onlyKeepsAlive(const std::vector<std::string>& entrypoint);

// Metadata of a session for the request, without its network.
base::json::object metadataOf(const CreateRequest& request);

// The client's metadata: the session's without kReserved.
base::json::object clientMetadata(const model::Session& session);
// RFC 7396 applied to the session's metadata. kInvalid for reserved names and other values than
// text and null.
Result<base::json::object> patchedMetadata(const model::Session& session,
                                           const base::json::object& patch);

// `paused_at`: since when it is paused, in wall-clock microseconds; 0: it is not.
std::string_view stateOf(const model::Session& session, int64_t paused_at = 0);
// The answer to a creation has no `image` and no `snapshotId`.
base::json::object createdObject(const model::Session& session, int64_t paused_at = 0);
base::json::object sandboxObject(const model::Session& session, int64_t paused_at = 0);
base::json::object snapshotObject(const model::Snapshot& snapshot);

// A page of a list, both from 1.
struct PageRequest {
  uint64_t page = 1;
  uint64_t size = 20;
};
// {"items", "pagination"}
base::json::object pageOf(std::vector<base::json::object> all, const PageRequest& wanted);

// "a=1&b=2": all pairs have to be there.
Result<std::map<std::string, std::string>> parseMetadataFilter(const std::string& text);
bool matches(const model::Session& session, const std::map<std::string, std::string>& filter);

}  // namespace cloister::api::compat::opensandbox
