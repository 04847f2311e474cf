// SPDX-License-Identifier: Apache-2.0
// The places of `cloister cp` and `cloister session files`: SESSION:PATH, or a local path.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::cli {

struct Place {
  std::string session = {};  // "" for a local path
  std::string path = {};     // of a session: beneath /workspace, "" for the workspace itself
  bool into = false;         // a directory, in which the source keeps its name

  [[nodiscard]] bool local() const { return session.empty(); }
  // Standard input or output.
  [[nodiscard]] bool standard() const { return local() && path == "-"; }
  // As an operand with the same meaning everywhere.
  [[nodiscard]] std::string text() const;
};

// Text before the first ':' is a session, unless the text contains a '/'.
Result<Place> parsePlace(std::string_view operand);

// The path beneath /workspace for `text`, relative or with the prefix /workspace. kInvalid for a
// path outside, or with "..".
Result<std::string> workspacePath(std::string_view text);

// The name at the end of a path; "" for a path without a name: ".", "..", "/".
std::string nameOf(std::string_view path);

// `name` in the directory `under`; either may be "".
std::string joinPath(const std::string& under, const std::string& name);

// Percent-encoded for a URL's path, its slashes kept.
std::string encodePath(std::string_view path);

}  // namespace cloister::cli
