// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include "api/http/cookies.h"

namespace cloister::api {
namespace {

constexpr auto kOwn =
    std::to_array<std::string_view>({kSecureSession, kPlainSession, kSecureLogin, kPlainLogin});

}  // namespace

bool isOwnCookie(std::string_view name) {
  const std::string lower = lowerCase(name);
  return std::ranges::any_of(kOwn, [&](std::string_view own) { return lower == lowerCase(own); });
}

}  // namespace cloister::api
