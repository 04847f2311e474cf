// SPDX-License-Identifier: Apache-2.0
// Verified digests of images, for executions that ran before the verification. See image_digests.h.
#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "model/audit_entry.h"
#include "model/execution.h"
#include "store/image_digests.h"
#include "store/write.h"

namespace cloister::store {

// No effect for a noted or unknown execution.
Result<void> noteUnverified(Transaction tx, const Unverified& execution);
// Binds the digest to executions noted with this place, if their sandbox was made after the image's
// newest change: an audit row "image.verified" lists their ids. Other noted executions are dropped
// with "image.not_verified". Each call writes one row, of one tenant, for at most a few hundred
// executions, and returns their number: call again while the number is not 0.
Result<uint64_t> bindImage(Transaction tx, const VerifiedImage& image);

// Sets the bound digest of an execution (by its seq); returns the number of the audit entry, 0
// without a bound digest.
Result<uint64_t> addImage(Database& db, model::Execution& execution);

// True if the entry binds this digest to this execution.
bool bindsImage(const model::AuditEntry& entry, const std::string& execution,
                const std::string& digest);

}  // namespace cloister::store
