// SPDX-License-Identifier: Apache-2.0
// What an image was verified to be, for executions that ran on it before. See image_digests.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "model/audit_entry.h"
#include "model/execution.h"
#include "store/image_digests.h"
#include "store/write.h"

namespace cloister::store {

// Nothing where it is noted already, or there is no such execution.
Result<void> noteUnverified(Transaction tx, const Unverified& execution);
// Binds the digest to executions that were noted with this place: to those whose sandbox was made
// after the image's newest change, by an audit row "image.verified" with their ids. Others are let
// go, with "image.not_verified". One row, of one tenant, for at most a few hundred; gives their
// number: call again while it is not 0.
Result<uint64_t> bindImage(Transaction tx, const VerifiedImage& image);

// Gives an execution (by its seq) the digest that was bound to it; the number of the audit entry,
// 0 where none was.
Result<uint64_t> addImage(Database& db, model::Execution& execution);

// Whether an entry binds this digest to this execution.
bool bindsImage(const model::AuditEntry& entry, const std::string& execution,
                const std::string& digest);

}  // namespace cloister::store
