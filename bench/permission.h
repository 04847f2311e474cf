// SPDX-License-Identifier: Apache-2.0
// What it costs to check whether one operation may be done, without the service around it.
#pragma once

#include <vector>

#include "base/result.h"

namespace cloister::bench {

// Microseconds of each of many checks of one Python run, sorted.
struct PermissionTimes {
  std::vector<double> decision;  // policy::decide() of the default policy
  std::vector<double> permit;    // a fresh id, that decision, the permit encoded and signed
};

// `checks` of each, alternating, after some that are not counted. As RunService asks: the request
// is parsed and resolved before. One thread.
Result<PermissionTimes> measurePermission(int checks);

}  // namespace cloister::bench
