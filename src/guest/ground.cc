// SPDX-License-Identifier: Apache-2.0
#include "guest/ground.h"

#include "guest/machine.h"
#include "wire/guest.h"

namespace cloister::guest {

const Ground kMachine{kRoot, wire::guest::kRunner, wire::guest::kFilter, true};
const Ground kContainer{"", wire::guest::kRunnerInContainer, wire::guest::kFilterInContainer,
                        false};

}  // namespace cloister::guest
