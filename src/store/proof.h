// SPDX-License-Identifier: Apache-2.0
// Holds records to the audit log: see Store::mismatches and Store::sessionMismatches, and those of
// Escalations.
#pragma once

#include <vector>

#include "base/result.h"
#include "store/db.h"
#include "store/store.h"

namespace cloister::store {

Result<std::vector<Mismatch>> findMismatches(Database& db, uint64_t after, uint32_t limit);
Result<std::vector<Mismatch>> findSessionMismatches(Database& db, uint64_t after, uint32_t limit);
Result<std::vector<Mismatch>> findEscalationMismatches(Database& db, uint64_t after,
                                                       uint32_t limit);

}  // namespace cloister::store
