// SPDX-License-Identifier: Apache-2.0
#include "model/quota.h"

#include <algorithm>

namespace cloister::model {
namespace {

constexpr QuotaDimension kDimensions[] = {
    {"concurrent", &Quota::concurrent, true},
    {"sessions", &Quota::sessions, true},
    {"runs_per_minute", &Quota::runs_per_minute, true},
    {"cpu_seconds_per_hour", &Quota::cpu_seconds_per_hour, true},
    {"memory_mb", &Quota::memory_mb, true},
    {"storage_mb", &Quota::storage_mb, false},
};

}  // namespace

std::span<const QuotaDimension> quotaDimensions() {
  return kDimensions;
}

base::json::object toJsonObject(const Quota& quota) {
  base::json::object object;
  for (const QuotaDimension& each : kDimensions) {
    const auto& bound = quota.*each.bound;
    object[each.name] = bound ? base::json::value(*bound) : base::json::value(nullptr);
  }
  return object;
}

Result<Quota> parseQuota(const base::json::object& object, const std::string& path, bool of_agent) {
  base::ObjectReader reader(object, path);
  Quota quota;
  for (const QuotaDimension& each : kDimensions) {
    const auto value = TRY(reader.integer(each.name, 1, static_cast<int64_t>(kMaxQuota)));
    if (!value) continue;
    if (of_agent && !each.of_agents) {
      const std::string field = reader.pathOf(each.name);
      return fail(Code::kInvalid, field + ": is a tenant's; leave it out for an agent", field);
    }
    quota.*each.bound = static_cast<uint64_t>(*value);
  }
  TRY(reader.finish());
  return quota;
}

Quota merged(const Quota& first, const Quota& second) {
  Quota both;
  for (const QuotaDimension& each : kDimensions) {
    const auto& bound = first.*each.bound;
    both.*each.bound = bound ? bound : second.*each.bound;
  }
  return both;
}

}  // namespace cloister::model
