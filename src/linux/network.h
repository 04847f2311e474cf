// SPDX-License-Identifier: Apache-2.0
// Network namespaces: the little that a sandbox without a network needs.
#pragma once

#include "base/result.h"

namespace cloister::linux {

// Brings up `lo` of this network namespace; netdevice(7).
Result<> loopbackUp();

}  // namespace cloister::linux
