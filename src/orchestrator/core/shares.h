// SPDX-License-Identifier: Apache-2.0
// Shares: counts activities, of all tenants and of each tenant, so that no tenant takes all places.
// One executor; a held place may outlive the Shares.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::orchestrator {

struct ShareBounds {
  uint32_t all = 1;
  uint32_t per_tenant = 1;
  std::string_view key;  // of the configuration; with "_per_tenant" of a tenant's share
};

class Shares {
 public:
  explicit Shares(ShareBounds bounds) : bounds_(bounds) {}

  // Takes a place of `tenant` for the lifetime of the result. kQuota names the bound, and the time
  // of the next attempt; `doing` and `what` are for the message: "uploading", "uploads".
  Result<std::shared_ptr<void>> enter(const std::string& tenant, const std::string& doing,
                                      const std::string& what);

 private:
  struct Count {
    uint32_t all = 0;
    std::map<std::string, uint32_t> of_tenant;
  };

  ShareBounds bounds_;
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
};

}  // namespace cloister::orchestrator
