// SPDX-License-Identifier: Apache-2.0
#include "policy/command/image_names.h"

#include <algorithm>
#include <iterator>

namespace cloister::policy {

void ImageNames::set(const std::vector<model::ProgramLink>& links) {
  Links fresh;
  for (const model::ProgramLink& link : links) {
    const auto [begin, end] = fresh.equal_range(link.name);
    const auto same = [&](const auto& known) { return known.second == link.real; };
    if (std::none_of(begin, end, same)) fresh.emplace(link.name, link.real);
  }
  auto shared = std::make_shared<const Links>(std::move(fresh));
  const std::lock_guard lock(mutex_);
  links_.swap(shared);
}

std::vector<std::string> ImageNames::leadsTo(std::string_view name) const {
  std::shared_ptr<const Links> links;
  {
    const std::lock_guard lock(mutex_);
    links = links_;
  }
  std::vector<std::string> programs;
  const auto [begin, end] = links->equal_range(name);
  std::transform(begin, end, std::back_inserter(programs),
                 [](const auto& link) { return link.second; });
  return programs;
}

}  // namespace cloister::policy
