// SPDX-License-Identifier: Apache-2.0
// Shares: how many of something are under way, of all tenants and of each, so that none has all the
// places. One executor; what holds a place may outlive this.
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
  std::string_view key;  // of the configuration; that of a tenant's share is it with "_per_tenant"
};

class Shares {
 public:
  explicit Shares(ShareBounds bounds) : bounds_(bounds) {}

  // One more of `tenant`'s, for as long as what it gives lives. kQuota names the bound, and when to
  // come back; `doing` and `what` are for its text: "uploading", "uploads".
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
