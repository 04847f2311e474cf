// SPDX-License-Identifier: Apache-2.0
// Checks an image for its language's toolchain. Pure.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/permit.h"
#include "model/plan.h"

namespace cloister::orchestrator {

// kUnsupported, with the field "language", if the node reported the permit's image without the
// toolchain of `language`; the message is from `cloister doctor`. "" for no language. A virtual
// machine has a default image of its own, with unknown toolchains.
Result<> checkToolchain(const model::NodeOffer& offer, std::string_view language,
                        const model::PermitFields& permit);

}  // namespace cloister::orchestrator
