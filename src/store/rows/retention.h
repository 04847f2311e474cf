// SPDX-License-Identifier: Apache-2.0
// Retention. Executions that ended long ago lose their output and request, and later their record.
// Retention works in small batches, so that no write waits long. The audit log keeps all entries.
#pragma once

#include "base/result.h"
#include "store/store.h"
#include "store/write.h"

namespace cloister::store {

inline constexpr int kRetainBatch = 200;

// Applies retention to a few hundred records, with an audit row; call again while records change.
Result<Retained> retain(Transaction tx, const Retention& rules);

}  // namespace cloister::store
