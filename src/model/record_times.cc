// SPDX-License-Identifier: Apache-2.0
#include "model/record_times.h"

#include <algorithm>

namespace cloister::model {

int64_t latestTime(const Execution& execution) {
  return std::max({execution.created_at, execution.started_at, execution.finished_at});
}

int64_t latestTime(const Session& session) {
  return std::max({session.created_at, session.last_used_at, session.ended_at});
}

int64_t latestTime(const Escalation& escalation) {
  const auto& votes = escalation.decisions;
  const int64_t voted = votes.empty() ? 0 : votes.back().at;
  return std::max({escalation.created_at, voted, escalation.decided_at, escalation.ended_at});
}

}  // namespace cloister::model
