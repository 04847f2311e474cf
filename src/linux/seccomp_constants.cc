// SPDX-License-Identifier: Apache-2.0
#include "linux/seccomp_constants.h"

#include <algorithm>
#include <span>

#include "linux/seccomp_values.h"

namespace cloister::linux {
namespace {

std::optional<uint64_t> valueOf(std::span<const SeccompConstant> sorted, std::string_view name) {
  const auto found = std::ranges::lower_bound(sorted, name, {}, &SeccompConstant::name);
  if (found == sorted.end() || found->name != name) return std::nullopt;
  return found->value;
}

}  // namespace

std::optional<uint64_t> seccompConstant(std::string_view name) {
  return valueOf({seccompConstants, seccompConstantsCount}, name);
}

std::optional<int> errnoByName(std::string_view name) {
  const auto value = valueOf({seccompErrnos, seccompErrnosCount}, name);
  if (!value) return std::nullopt;
  return static_cast<int>(*value);
}

}  // namespace cloister::linux
