// SPDX-License-Identifier: Apache-2.0
// The key of the file admin.key, which the control plane makes on its first start.
#pragma once

#include <string>

#include "base/result.h"
#include "store/store.h"

namespace cloister {

// Makes the file if it is missing or empty, and checks an existing key.
Result<> ensureAdminKey(const std::string& path);
// Makes the key in admin.key valid, and its previous keys invalid: to rotate the key, remove the
// file and start again.
Result<> enrolAdminKey(store::Store& store, const std::string& secret);

}  // namespace cloister
