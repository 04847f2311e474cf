// SPDX-License-Identifier: Apache-2.0
// What a cell of an interpreter gave (Execution::results: objects from mime types to data,
// hostile), as an answer shows it. Pure.
#pragma once

#include <cstddef>
#include <string>

#include "base/json.h"

namespace cloister::api::mcp {

namespace json = base::json;

// The results' plain texts, one after the other; about `most` bytes at most, "" if there are none.
std::string shownResults(const json::array& results, size_t most);

// Blocks with the results' figures (PNG, JPEG): at most `most`, each of at most `most_bytes`.
json::array figuresOf(const json::array& results, size_t most, size_t most_bytes);

}  // namespace cloister::api::mcp
