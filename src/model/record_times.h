// SPDX-License-Identifier: Apache-2.0
// The latest time in a record. A new time of the record is never before this time, even if the wall
// clock is set back. Future times (expires_at) do not count.
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
