// SPDX-License-Identifier: Apache-2.0
// Users by name. Apart from credentials.h, because a static program has no getpwnam(3): the look-up
// loads libraries of the machine.
#pragma once

#include <optional>
#include <string>

#include "linux/credentials.h"

namespace cloister::linux {

// nullopt for an unknown user. Any thread.
std::optional<User> findUser(const std::string& name);

// Whether this process's user namespace has the ids [first, first + count). Any thread.
bool hasIds(uint64_t first, uint64_t count);

// The user of a service's process that root starts: `name`, or the id `fallback` if there is no
// such user. In a user namespace without that id, root itself: an ordinary user of the host.
User serviceUser(const std::string& name, uint32_t fallback);

}  // namespace cloister::linux
