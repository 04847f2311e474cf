// SPDX-License-Identifier: Apache-2.0
// Globs from a client against paths from a program, parted by the first NUL.
#include "runner/glob.h"

#include <cstdint>

#include "require.h"

using cloister::runner::globMatch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t nul = bytes.find('\0');
  if (nul == std::string_view::npos) return 0;
  const std::string_view pattern = bytes.substr(0, nul);
  const std::string_view path = bytes.substr(nul + 1);
  const bool matched = globMatch(pattern, path);
  if (pattern.find_first_of("*?[\\") == std::string_view::npos && !pattern.ends_with('/') &&
      !path.ends_with('/')) {
    REQUIRE(matched == (pattern == path));
  }
  if (!path.empty()) REQUIRE(globMatch("**", path));
  return 0;
}
