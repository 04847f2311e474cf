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
// The body of a request that does the same as the stored request: without its approval, which is
// spent, without limits that were left to the defaults, and without the service's own members. A
// program of a session gets its surroundings from the session.
Result<base::json::object> bodyToRepeat(base::json::object stored);

}  // namespace cloister::orchestrator
