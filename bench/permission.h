// SPDX-License-Identifier: Apache-2.0
// The cost of checking whether an operation is allowed, without the service around the check.
#pragma once

#include <vector>

#include "base/result.h"

namespace cloister::bench {

// Microseconds of each of many checks of the same Python run, sorted.
struct PermissionTimes {
  std::vector<double> decision;  // policy::decide() of the default policy
  std::vector<double> permit;    // a fresh id, the decision, the permit encoded and signed
};

// `checks` of each kind, alternating, after some uncounted. Like RunService: the request is parsed
// and resolved before. One thread.
Result<PermissionTimes> measurePermission(int checks);

}  // namespace cloister::bench
