// SPDX-License-Identifier: Apache-2.0
#include "linux/users.h"

#include <pwd.h>

namespace cloister::linux {

std::optional<User> findUser(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  char buffer[4096];
  if (::getpwnam_r(name.c_str(), &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr) {
    return std::nullopt;
  }
  return User{found->pw_uid, found->pw_gid};
}

}  // namespace cloister::linux
