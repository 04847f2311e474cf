// SPDX-License-Identifier: Apache-2.0
// Where the documents of the installation are.
#pragma once

#include <string>

namespace cloister::base {

// The directory that docs/CONFIGURATION.md, for instance, is in: doc/cloister beside shareDir(),
// which is PREFIX/share/doc/cloister. It may not exist.
std::string docDir();

}  // namespace cloister::base
