// SPDX-License-Identifier: Apache-2.0
// Reads requests back from the ledger. Accepted requests stay valid under narrower bounds; policy
// decides at the start.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "model/run_request.h"

namespace cloister::orchestrator {

// Bounds wide enough for every accepted request.
model::RequestBounds storedBounds();
Result<base::json::object> parseStored(const std::string& request_json);

}  // namespace cloister::orchestrator
