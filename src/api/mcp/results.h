// SPDX-License-Identifier: Apache-2.0
// What a cell of an interpreter gave (Execution::results: objects from mime types to data,
// hostile), as an answer shows it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "model/execution.h"

namespace cloister::api::mcp {

namespace json = base::json;

// The results' plain texts, one after the other; about `most` bytes at most, "" if there are none.
std::string shownResults(const json::array& results, size_t most);

// A figure (PNG, JPEG) of a result.
struct ShownFigure {
  size_t result = 0;
  std::string_view type;
  uint64_t size = 0;
  std::string bytes;     // of one that the answer shows
  std::string artifact;  // its id, where it is kept as one
};
// Shown are at most `most`, each of at most `most_bytes`.
std::vector<ShownFigure> figuresOf(const model::Execution& run, size_t most, size_t most_bytes);
json::array figureObjects(const std::vector<ShownFigure>& figures);
// A line for each, each after a line end.
std::string figureLines(const std::vector<ShownFigure>& figures);

}  // namespace cloister::api::mcp
