// SPDX-License-Identifier: Apache-2.0
// Network and UTS namespaces: the little that a sandbox without a network needs.
#pragma once

#include <string_view>

#include "base/result.h"

namespace cloister::linux {

// Brings up `lo` of this network namespace; netdevice(7).
Result<> loopbackUp();

// Names the host of this UTS namespace; sethostname(2).
Result<> nameHost(std::string_view name);

}  // namespace cloister::linux
