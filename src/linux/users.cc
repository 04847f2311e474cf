// SPDX-License-Identifier: Apache-2.0
#include "linux/users.h"

#include <sstream>

#include <pwd.h>

#include "base/file.h"

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

bool hasIds(uint64_t first, uint64_t count) {
  std::istringstream map(base::readFile("/proc/self/uid_map").value_or(std::string()));
  for (uint64_t inside = 0, outside = 0, length = 0; map >> inside >> outside >> length;) {
    if (first >= inside && first + count <= inside + length) return true;
  }
  return false;
}

User serviceUser(const std::string& name, uint32_t fallback) {
  const User user = findUser(name).value_or(User{fallback, fallback});
  return hasIds(user.uid, 1) ? user : User{0, 0};
}

}  // namespace cloister::linux
