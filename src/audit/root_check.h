// SPDX-License-Identifier: Apache-2.0
// Checks the stored roots of the audit log: that they form one row, that each is signed, and that
// each carries the digest of the log's entry at the end of its period.
#pragma once

#include <string>

#include "base/crypto.h"
#include "base/result.h"
#include "store/store.h"

namespace cloister::audit {

// The first defect, "" without one. An error: the roots could not be read.
Result<std::string> rootsProblem(store::Store& store, const base::VerifyKey& key);

}  // namespace cloister::audit
