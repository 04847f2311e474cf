// SPDX-License-Identifier: Apache-2.0
// The state directory of the control plane: its layout, its keys, and their owner.
#pragma once

#include <string>

#include "base/result.h"
#include "linux/users.h"
#include "model/config.h"

namespace cloister {

// The service's user: the configured user when started as root, otherwise the starting user. Root
// of a user namespace with one id stays root.
Result<linux::User> serviceUser(const model::Config& config);

// The file of the artifacts' master key. The last place is ours, earlier places belong to the
// operator.
std::string masterKeyFile(const model::Config& config, const std::string& state);

// The state's layout and keys, as root or as the user. The node makes its own part, run/.
Result<> prepareState(const model::Config& config, const std::string& state);

}  // namespace cloister
