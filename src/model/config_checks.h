// SPDX-License-Identifier: Apache-2.0
// Checks of a whole configuration: relations between keys, and forms beyond a key's type. Pure.
#pragma once

#include "base/result.h"
#include "model/config.h"

namespace cloister::model {

// kInvalid names the key, in `field` too.
Result<> checkConfig(const Config& config);

}  // namespace cloister::model
