// SPDX-License-Identifier: Apache-2.0
// Filters for lists of the ledger. All lists are read newest first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/escalation.h"
#include "model/execution.h"
#include "model/session.h"

namespace cloister::store {

struct ListQuery {
  std::optional<model::Status> status;
  std::string agent;
  std::string session_id;
  uint32_t limit = 50;      // 1..500
  uint64_t before_seq = 0;  // 0: from the newest
};

struct SessionQuery {
  std::optional<model::SessionStatus> status;
  std::string agent;
  uint32_t limit = 50;      // 1..500
  uint64_t before_seq = 0;  // 0: from the newest
};

struct ArtifactQuery {
  uint32_t limit = 50;    // 1..500
  std::string before_id;  // "": from the newest
};

struct EscalationQuery {
  std::optional<model::EscalationStatus> status;
  std::string agent;
  uint32_t limit = 50;      // 1..500
  uint64_t before_seq = 0;  // 0: from the newest
};

}  // namespace cloister::store
