// SPDX-License-Identifier: Apache-2.0
// Whether the image that a program is to run in has what its language needs. Pure.
#pragma once

#include <string_view>

#include "base/result.h"
#include "model/permit.h"
#include "model/plan.h"

namespace cloister::orchestrator {

// kUnsupported, with the field "language", where the node has said that the permit's image lacks
// the toolchain of `language`, with what `cloister doctor` says of it. "" for no language. A
// virtual machine has a default image of its own, of which nothing is known here.
Result<> checkToolchain(const model::NodeOffer& offer, std::string_view language,
                        const model::PermitFields& permit);

}  // namespace cloister::orchestrator
