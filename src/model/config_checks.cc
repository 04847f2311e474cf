// SPDX-License-Identifier: Apache-2.0
#include "model/config_checks.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "model/escalation.h"

namespace cloister::model {
namespace {

// Checks relations between keys.
Result<> agree(const Config& config) {
  struct Pair {
    std::string_view low;
    uint32_t low_value;
    std::string_view high;
    uint32_t high_value;
  };
  const SessionSettings& session = config.session;
  const Pair pairs[] = {
      {"pool.floor", config.pool.floor, "pool.ready", config.pool.ready},
      {"session.ttl_seconds", session.ttl_seconds, "session.max_ttl_seconds",
       session.max_ttl_seconds},
      {"session.idle_ttl_seconds", session.idle_ttl_seconds, "session.max_ttl_seconds",
       session.max_ttl_seconds},
  };
  for (const Pair& pair : pairs) {
    if (pair.low_value <= pair.high_value) continue;
    const std::string low(pair.low);
    return fail(Code::kInvalid,
                low + ": must be at most " + std::string(pair.high) + ", which is " +
                    std::to_string(pair.high_value) + "; lower it or raise that",
                low);
  }
  return {};
}

// A cgroup below the service's own, so no part of the path may lead elsewhere.
Result<> checkCgroup(const std::string& path) {
  const auto usable = [](auto part) {
    return !part.empty() && part[0] != '.' && std::ranges::all_of(part, [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
             c == '-' || c == '_' || c == '.' || c == '@' || c == ':';
    });
  };
  for (size_t from = 0; from <= path.size();) {
    const size_t end = std::min(path.find('/', from), path.size());
    if (!usable(std::string_view(path).substr(from, end - from))) {
      return fail(Code::kInvalid,
                  "node.cgroup_parent: must be a name for a cgroup, or several with / between, of "
                  "letters, digits and -_.@: and none beginning with a dot; cloister is usual",
                  "node.cgroup_parent");
    }
    from = end + 1;
  }
  return {};
}

Result<> checkOperations(const std::vector<std::string>& safe) {
  constexpr const char* kPath = "escalation.safe_operations";
  for (const std::string& name : safe) {
    if (isOperationInSandboxes(name)) continue;
    return fail(Code::kInvalid,
                std::string(kPath) + ": has \"" + name + "\"; must be of " +
                    operationsInSandboxes() + (name == operation::kRun ? "; a run never is" : ""),
                kPath);
  }
  return {};
}

}  // namespace

Result<> checkConfig(const Config& config) {
  TRY(agree(config));
  TRY(checkCgroup(config.node.cgroup_parent));
  TRY(checkOperations(config.escalation.safe_operations));
  TRY(checkEgress(config.egress));
  return checkPackages(config.packages);
}

}  // namespace cloister::model
