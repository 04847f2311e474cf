// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/shares.h"

#include <utility>

namespace cloister::orchestrator {

Result<std::shared_ptr<void>> Shares::enter(const std::string& tenant, const std::string& doing,
                                            const std::string& what) {
  constexpr int kRetryAfterSeconds = 2;
  const auto found = count_->of_tenant.find(tenant);
  const uint32_t own = found == count_->of_tenant.end() ? 0 : found->second;
  const bool own_full = own >= bounds_.per_tenant;
  if (own_full || count_->all >= bounds_.all) {
    const uint32_t most = own_full ? bounds_.per_tenant : bounds_.all;
    const std::string key = std::string(bounds_.key) + (own_full ? "_per_tenant" : "");
    Error busy{Code::kQuota,
               doing + ": " + std::to_string(most) + " " + what +
                   (own_full ? " of this tenant" : "") + " are under way (" + key + ")",
               ""};
    busy.retry_after_seconds = kRetryAfterSeconds;
    return std::unexpected(std::move(busy));
  }
  ++count_->all;
  ++count_->of_tenant[tenant];
  return std::shared_ptr<void>(nullptr, [count = count_, tenant](void*) {
    --count->all;
    if (--count->of_tenant[tenant] == 0) count->of_tenant.erase(tenant);
  });
}

}  // namespace cloister::orchestrator
