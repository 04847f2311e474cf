// SPDX-License-Identifier: Apache-2.0
// Places without approval in a session's own sandbox: places outside the workspace that programs of
// the session write, or that change by themselves. The environment of an approved program must not
// name programs in such places.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::policy {

// Whether an absolute path of a sandbox may be at or lead to an uncovered place. A directory above
// such a place counts, and so does a path with `..`, which links may lead anywhere.
bool isUncovered(std::string_view path);

struct UncoveredVariable {
  std::string name;
  std::string why;  // for people: "names /tmp/bin, which an approval does not cover"
};

// The first of `env` ("NAME=value") whose value names an uncovered place, whatever the variable is
// for: no list has all variables that programs load code by. Exempt are variables for new files
// (TMPDIR, TMP, TEMP, TEMPDIR, XDG_CACHE_HOME, XDG_STATE_HOME). A variable that is known to
// determine executed code (variableNamed()) must also name no directory above such a place, and
// must not be computed only when used. Relative paths are covered.
std::optional<UncoveredVariable> uncoveredVariable(const std::vector<std::string>& env);

}  // namespace cloister::policy
