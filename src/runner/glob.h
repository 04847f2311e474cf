// SPDX-License-Identifier: Apache-2.0
// Globs over relative paths: `*`, `?` and `[a-z]` match within one component, a component `**`
// matches any number of them, `\` takes the next character literally. Pure; time is bounded by the
// product of the lengths.
#pragma once

#include <string_view>

namespace cloister::runner {

// True if `pattern` matches the whole of `path` ("a/b.txt", no leading slash).
bool globMatch(std::string_view pattern, std::string_view path);

}  // namespace cloister::runner
