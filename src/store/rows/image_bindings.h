// SPDX-License-Identifier: Apache-2.0
// What an image was verified to be, for executions that ran on it before. See image_store.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "store/image_store.h"
#include "store/write.h"

namespace cloister::store {

// See ImageStore::noteUnverified and ImageStore::bind; within a transaction.
Result<void> noteUnverified(Transaction tx, const Unverified& execution);
Result<uint64_t> bindImage(Transaction tx, const VerifiedImage& image);

// Gives an execution (by its seq) the digest that was bound to it; the number of the audit entry,
// 0 where none was.
Result<uint64_t> addImage(Database& db, model::Execution& execution);

// Whether an entry binds this digest to this execution.
bool bindsImage(const model::AuditEntry& entry, const std::string& execution,
                const std::string& digest);

}  // namespace cloister::store
