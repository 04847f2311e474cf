// SPDX-License-Identifier: Apache-2.0
// The error that ended a cell, read from the cell's stderr: interpreters print their traceback
// there, and clients of notebooks expect the error apart. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cloister::api::compat {

struct Raised {
  std::string name;   // "ValueError"
  std::string value;  // its message
  std::string traceback;
};

// The offset in stderr from which an interpreter's traceback may begin; npos for none. Text before
// the offset is no part of a traceback.
size_t tracebackBegin(std::string_view text);
// The error that the text ends with; nullopt for other text.
std::optional<Raised> readTraceback(std::string_view text);

}  // namespace cloister::api::compat
