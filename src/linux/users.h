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

}  // namespace cloister::linux
