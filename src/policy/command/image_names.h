// SPDX-License-Identifier: Apache-2.0
// The images' programs that are links to others, as reported by the node, so that a rule about a
// program holds under each of its names. Thread-safe.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "model/plan.h"

namespace cloister::policy {

class ImageNames {
 public:
  // Replaces the previous links.
  void set(const std::vector<model::ProgramLink>& links);
  // The programs behind links called `name`, unordered; usually none.
  [[nodiscard]] std::vector<std::string> leadsTo(std::string_view name) const;

 private:
  using Links = std::multimap<std::string, std::string, std::less<>>;
  mutable std::mutex mutex_;
  std::shared_ptr<const Links> links_ = std::make_shared<const Links>();  // guarded by mutex_
};

}  // namespace cloister::policy
