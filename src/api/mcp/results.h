// SPDX-License-Identifier: Apache-2.0
// The results of an interpreter's cell (Execution::results: objects from mime types to data,
// hostile), for answers. Pure.
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

// The results' plain texts in order; about `most` bytes at most, "" without any.
std::string shownResults(const json::array& results, size_t most);

// A figure (PNG, JPEG) of a result.
struct ShownFigure {
  size_t result = 0;
  std::string_view type;
  uint64_t size = 0;
  std::string bytes;     // only of a figure shown in the answer
  std::string artifact;  // the id of the kept artifact
};
// Shown are at most `most`, each of at most `most_bytes`.
std::vector<ShownFigure> figuresOf(const model::Execution& run, size_t most, size_t most_bytes);
json::array figureObjects(const std::vector<ShownFigure>& figures);
// A line for each, each after a line end.
std::string figureLines(const std::vector<ShownFigure>& figures);

}  // namespace cloister::api::mcp
