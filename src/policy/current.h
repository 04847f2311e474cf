// SPDX-License-Identifier: Apache-2.0
// The policy in force: one for the whole service, replaced as a whole at run time. Thread-safe: a
// decision keeps the policy of its beginning.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "policy/document.h"

namespace cloister::policy {

class Current {
 public:
  explicit Current(Policy policy = brokenPolicy("none", "none was read")) {
    set(std::move(policy));
  }

  void set(Policy policy) { policy_.store(std::make_shared<const Policy>(std::move(policy))); }
  [[nodiscard]] std::shared_ptr<const Policy> get() const { return policy_.load(); }

 private:
  std::atomic<std::shared_ptr<const Policy>> policy_;
};

}  // namespace cloister::policy
