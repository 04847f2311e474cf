// SPDX-License-Identifier: Apache-2.0
// The receipt of an ended execution, from the execution's record, audit entries and approvers
// (model/receipt.h).
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/json.h"
#include "base/result.h"
#include "store/store.h"

namespace cloister::audit {

// kNotFound outside of `scope`; kConflict before the execution's end, and if the ledger's records
// differ from its audit log. Reads the ledger.
Result<base::json::object> receiptOf(store::Store& store, const store::Scope& scope,
                                     const std::string& execution_id, const base::SigningKey& key);

}  // namespace cloister::audit
