// SPDX-License-Identifier: Apache-2.0
// A node's offer as JSON: the answer of GET /v1/node, and what `cloister doctor` reads of a node
// that serves nobody. Pure.
#pragma once

#include "base/json.h"
#include "model/plan.h"

namespace cloister::model {

// All members but `links` and `images`, which have resources of their own.
base::json::object offerJson(const NodeOffer& offer);

}  // namespace cloister::model
