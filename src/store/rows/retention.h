// SPDX-License-Identifier: Apache-2.0
// Retention: what has ended long ago loses its output and request, then its record, a batch at a
// time, so that no write waits long behind it. The audit log keeps all of its entries.
#pragma once

#include "base/result.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

inline constexpr int kRetainBatch = 200;

// Applies retention to a few hundred records, with an audit row; call again while it did any.
Result<Retained> retain(Transaction tx, const Retention& rules);

}  // namespace cloister::store
