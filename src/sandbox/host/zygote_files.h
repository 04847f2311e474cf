// SPDX-License-Identifier: Apache-2.0
// The files that turn an interpreter of an image into a zygote, or let an interpreter wait alone.
#pragma once

#include <vector>

#include "base/result.h"
#include "confine/zygote_plan.h"
#include "sandbox/host/config.h"

namespace cloister::runtime {

// The interpreter must find the files among its modules. Reads the files now.
Result<std::vector<ZygotePlan::File>> zygoteFiles(const ZygoteConfig& config);

}  // namespace cloister::runtime
