// SPDX-License-Identifier: Apache-2.0
// What `cloister cp` and `cloister session files` take for a place: SESSION:PATH, or a local path.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::cli {

struct Place {
  std::string session = {};  // "" for a local path
  std::string path = {};     // of a session: beneath /workspace, "" for the workspace itself
  bool into = false;         // it is a directory, in which the source gets its own name

  [[nodiscard]] bool local() const { return session.empty(); }
  // Standard input or output.
  [[nodiscard]] bool standard() const { return local() && path == "-"; }
  // As an operand that means the same wherever it is given.
  [[nodiscard]] std::string text() const;
};

// What stands before the first ':' is a session, unless it has a '/' in it.
Result<Place> parsePlace(std::string_view operand);

// The path beneath /workspace that `text` names, which is relative to it or begins with it.
// kInvalid for one outside, or with "..".
Result<std::string> workspacePath(std::string_view text);

// The name at the end of a path; "" where that has none of its own: ".", "..", "/".
std::string nameOf(std::string_view path);

// `name` in the directory `under`; either may be "".
std::string joinPath(const std::string& under, const std::string& name);

// Percent-encoded for a URL's path, its slashes kept.
std::string encodePath(std::string_view path);

}  // namespace cloister::cli
