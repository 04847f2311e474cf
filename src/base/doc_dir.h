// SPDX-License-Identifier: Apache-2.0
// The directory of the installation's documents.
#pragma once

#include <string>

namespace cloister::base {

// The directory of docs/CONFIGURATION.md and others: doc/cloister beside shareDir(), which is
// PREFIX/share/doc/cloister. May not exist.
std::string docDir();

}  // namespace cloister::base
