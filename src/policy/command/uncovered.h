// SPDX-License-Identifier: Apache-2.0
// What an approval in a session's own sandbox does not cover: places that programs of the session
// write and that are not its workspace, or that change by themselves. A program that is approved
// must not be told by its environment to run what lies there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::policy {

// Whether a path of a sandbox, absolute, may be at or lead to such a place: a directory that has
// one in it counts, and so does a path with `..`, which links may lead anywhere.
bool isUncovered(std::string_view path);

struct UncoveredVariable {
  std::string name;
  std::string why;  // for people: "names /tmp/bin, which an approval does not cover"
};

// The first of `env` ("NAME=value") that decides which code programs run (variableNamed()) and
// whose value names such a place, or is put together only when it is used. Relative paths are
// covered.
std::optional<UncoveredVariable> uncoveredVariable(const std::vector<std::string>& env);

}  // namespace cloister::policy
