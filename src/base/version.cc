// SPDX-License-Identifier: Apache-2.0
#include "base/version.h"

namespace cloister::base {

std::string_view version() {
  return CLOISTER_VERSION;
}

}  // namespace cloister::base
