// SPDX-License-Identifier: Apache-2.0
// The latest time that a record has: a later one of it is not before, whatever the wall clock says
// by then. Times that are to come (expires_at) do not count.
#pragma once

#include <cstdint>

#include "model/escalation.h"
#include "model/execution.h"
#include "model/session.h"

namespace cloister::model {

int64_t latestTime(const Execution& execution);
int64_t latestTime(const Session& session);
int64_t latestTime(const Escalation& escalation);

}  // namespace cloister::model
