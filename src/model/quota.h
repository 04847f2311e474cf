// SPDX-License-Identifier: Apache-2.0
// Quota: the share of the service that a tenant, or one agent of a tenant, may use. An absent value
// is taken from the next source: first the record, then the configuration. Without a value in
// either there is no bound.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace cloister::model {

struct Quota {
  std::optional<uint64_t> concurrent = std::nullopt;  // runs in a sandbox at once; others wait
  std::optional<uint64_t> sessions = std::nullopt;    // at once
  // Accepted runs, programs of sessions and cells; also the limit of a burst.
  std::optional<uint64_t> runs_per_minute = std::nullopt;
  // Processor time of work ended in this clock hour; above the limit no new work begins.
  std::optional<uint64_t> cpu_seconds_per_hour = std::nullopt;
  std::optional<uint64_t> memory_mb = std::nullopt;   // limits of concurrent work; runs wait
  std::optional<uint64_t> storage_mb = std::nullopt;  // artifacts and snapshots; of tenants only

  friend bool operator==(const Quota&, const Quota&) = default;
};

// A member as data.
struct QuotaDimension {
  std::string_view name;
  std::optional<uint64_t> Quota::* bound;
  bool of_agents;  // also available for agents
};
std::span<const QuotaDimension> quotaDimensions();

inline constexpr uint64_t kMaxQuota = 1'000'000'000;

// The owner of a quota: a tenant, or an agent of a tenant.
struct QuotaScope {
  std::string tenant;
  std::string agent = {};  // "": the whole tenant's

  friend auto operator<=>(const QuotaScope&, const QuotaScope&) = default;
};

struct QuotaRecord {
  QuotaScope scope;
  Quota quota;
};

// The current use.
struct QuotaUse {
  uint64_t running = 0;
  uint64_t sessions = 0;
  uint64_t runs_this_minute = 0;
  uint64_t cpu_seconds = 0;  // in this hour, rounded down
  uint64_t memory_mb = 0;
};

// All members, null if absent.
base::json::object toJsonObject(const Quota& quota);
// kInvalid names the member, below `path`: unknown, no whole number, 0 or more than kMaxQuota, or
// not available for agents. null means none.
Result<Quota> parseQuota(const base::json::object& object, const std::string& path, bool of_agent);
// The values of `first`, or else of `second`.
Quota merged(const Quota& first, const Quota& second);

}  // namespace cloister::model
