// SPDX-License-Identifier: Apache-2.0
// Reading requests back from the ledger. What was accepted stays so under narrower bounds; policy
// has the last word when it starts.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "model/run_request.h"

namespace cloister::orchestrator {

// Bounds that no request which was accepted once is over.
model::RequestBounds storedBounds();
Result<base::json::object> parseStored(const std::string& request_json);

}  // namespace cloister::orchestrator
