// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/revoked.h"

#include <algorithm>
#include <string>
#include <vector>

namespace cloister::policy {
namespace {

using model::Walls;

template <class List>
bool hasAll(const List& list, const List& of) {
  return std::ranges::all_of(
      of, [&](const auto& each) { return std::ranges::find(list, each) != list.end(); });
}

// Paths shown within a hidden place must stay shown.
bool hidesMore(const Walls& before, const Walls& after) {
  if (!hasAll(before.hidden, after.hidden)) return true;
  return std::ranges::any_of(before.shown, [&](const Walls::Shown& shown) {
    const bool hidden = std::ranges::find(after.hidden, shown.within) != after.hidden.end();
    return hidden && std::ranges::find(after.shown, shown) == after.shown.end();
  });
}

bool hasFewerPrograms(const Walls& before, const Walls& after) {
  if (!hasAll(before.without, after.without)) return true;
  if (before.runs_own && !after.runs_own) return true;
  return after.only && (!before.only || !hasAll(*after.only, *before.only));
}

bool mayStill(const Walls& after, const Walls::Writable& was) {
  return std::ranges::any_of(after.writable, [&](const Walls::Writable& is) {
    const bool all = (is.operations & was.operations) == was.operations;
    return all && is.beneath == was.beneath && is.path == was.path;
  });
}

bool writesLess(const Walls& before, const Walls& after) {
  if (after.writes > before.writes) return true;
  if (after.writes == Walls::Writes::kAll) return false;
  return !std::ranges::all_of(before.writable,
                              [&](const Walls::Writable& was) { return mayStill(after, was); });
}

}  // namespace

bool takesAway(const Walls& before, const Walls& after) {
  return hidesMore(before, after) || hasFewerPrograms(before, after) || writesLess(before, after);
}

}  // namespace cloister::policy
