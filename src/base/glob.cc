// SPDX-License-Identifier: Apache-2.0
#include "base/glob.h"

namespace cloister::base {

bool globMatches(std::string_view glob, std::string_view text) {
  size_t at = 0;
  size_t star = std::string_view::npos;
  size_t retry = 0;
  for (size_t i = 0; i < text.size();) {
    if (at < glob.size() && glob[at] == '*') {
      star = at++;
      retry = i;
    } else if (at < glob.size() && glob[at] == text[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++retry;
    } else {
      return false;
    }
  }
  return glob.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace cloister::base
