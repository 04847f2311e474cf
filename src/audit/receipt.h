// SPDX-License-Identifier: Apache-2.0
// The receipt of an execution that has ended, from its record, its audit entries and those who
// approved it (model/receipt.h).
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/json.h"
#include "base/result.h"
#include "store/store.h"

namespace cloister::audit {

// kNotFound outside of `scope`; kConflict while it has not ended, and where the ledger's records
// are not those that its audit log tells of. Reads the ledger.
Result<base::json::object> receiptOf(store::Store& store, const store::Scope& scope,
                                     const std::string& execution_id, const base::SigningKey& key);

}  // namespace cloister::audit
