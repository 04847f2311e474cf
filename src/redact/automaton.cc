// SPDX-License-Identifier: Apache-2.0
#include "redact/automaton.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace cloister::redact {
namespace {

size_t sharedPrefix(std::string_view left, std::string_view right) {
  return static_cast<size_t>(std::ranges::mismatch(left, right).in1 - left.begin());
}

}  // namespace

Automaton::Automaton(const std::vector<std::string>& patterns) : nodes_(1) {
  std::vector<uint16_t> order(std::min(patterns.size(), size_t{kNoMatch}));
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::ranges::sort(order, [&](uint16_t left, uint16_t right) {
    return std::tie(patterns[left], left) < std::tie(patterns[right], right);
  });
  lengths_.reserve(patterns.size());
  for (const std::string& each : patterns)
    lengths_.push_back(static_cast<uint32_t>(each.size()));

  // In sorted order a pattern shares its beginning with the one before it, whose path is kept.
  std::vector<State> path = {kRoot};
  std::string_view before;
  for (const uint16_t index : order) {
    insert(patterns[index], index, sharedPrefix(before, patterns[index]), path);
    before = patterns[index];
  }
  std::ranges::sort(branches_, {}, [](const Branch& b) { return std::tuple(b.parent, b.byte); });
  linkFailures();
}

void Automaton::insert(const std::string& pattern, uint16_t index, size_t shared,
                       std::vector<State>& path) {
  path.resize(shared + 1);
  for (size_t i = shared; i < pattern.size(); ++i) {
    const auto next = static_cast<State>(nodes_.size());
    nodes_.emplace_back().depth = static_cast<uint32_t>(i + 1);
    link(path.back(), static_cast<unsigned char>(pattern[i]), next);
    path.push_back(next);
  }
  if (pattern.empty()) return;
  longest_ = std::max(longest_, static_cast<uint32_t>(pattern.size()));
  // The first of equal patterns gives the name.
  uint16_t& match = nodes_[path.back()].match;
  if (match == kNoMatch) match = index;
}

void Automaton::link(State parent, unsigned char byte, State child) {
  Node& node = nodes_[parent];
  if (parent == kRoot) {
    root_[byte] = child;
  } else if (!node.has_next && child == parent + 1) {
    node.next_byte = byte;
    node.has_next = true;
  } else {
    node.has_branches = true;
    branches_.push_back({parent, byte, child});
  }
}

// Level by level: the failure link of a node is shorter than the node, so it is known already.
void Automaton::linkFailures() {
  std::vector<State> level;
  for (const State first : root_) {
    if (first != kRoot) level.push_back(first);
  }
  while (!level.empty()) {
    std::vector<State> next;
    const auto reach = [&](State parent, unsigned char byte, State state) {
      Node& node = nodes_[state];
      node.fail = step(nodes_[parent].fail, byte);
      if (node.match == kNoMatch) node.match = nodes_[node.fail].match;
      next.push_back(state);
    };
    for (const State state : level) {
      const Node& node = nodes_[state];
      // A pattern that ends at a node of the first level matches there; deeper ones come by
      // reach().
      if (node.has_next) reach(state, node.next_byte, state + 1);
      if (!node.has_branches) continue;
      auto each = std::ranges::lower_bound(branches_, state, {}, &Branch::parent);
      for (; each != branches_.end() && each->parent == state; ++each) {
        reach(state, each->byte, each->child);
      }
    }
    level = std::move(next);
  }
}

Automaton::State Automaton::branch(State state, unsigned char byte) const {
  const auto found =
      std::ranges::lower_bound(branches_, std::tuple(state, byte), {},
                               [](const Branch& b) { return std::tuple(b.parent, b.byte); });
  const bool is = found != branches_.end() && found->parent == state && found->byte == byte;
  return is ? found->child : kRoot;
}

// kRoot: there is none.
Automaton::State Automaton::child(State state, unsigned char byte) const {
  if (state == kRoot) return root_[byte];
  const Node& node = nodes_[state];
  if (node.has_next && node.next_byte == byte) return state + 1;
  return node.has_branches ? branch(state, byte) : kRoot;
}

Automaton::State Automaton::step(State state, unsigned char byte) const {
  while (true) {
    const State next = child(state, byte);
    if (next != kRoot || state == kRoot) return next;
    state = nodes_[state].fail;
  }
}

}  // namespace cloister::redact
