// SPDX-License-Identifier: Apache-2.0
// An Aho-Corasick automaton of byte strings. It is immutable. A node has 16 bytes, so that even
// 32 values of the greatest size need about 32 MiB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::redact {

class Automaton {
 public:
  using State = uint32_t;
  static constexpr State kRoot = 0;
  static constexpr uint16_t kNoMatch = UINT16_MAX;

  // At most kNoMatch patterns; empty ones match nothing.
  explicit Automaton(const std::vector<std::string>& patterns);

  [[nodiscard]] State step(State state, unsigned char byte) const;
  // Whether a pattern begins with this byte. A step from the root leaves it for such bytes alone.
  [[nodiscard]] bool begins(unsigned char byte) const { return root_[byte] != kRoot; }
  // The number of bytes of a pattern that the state stands for.
  [[nodiscard]] uint32_t depth(State state) const { return nodes_[state].depth; }
  // The longest pattern that ends here, by its index, else kNoMatch.
  [[nodiscard]] uint16_t match(State state) const { return nodes_[state].match; }
  [[nodiscard]] uint32_t length(uint16_t pattern) const { return lengths_[pattern]; }
  [[nodiscard]] uint32_t longest() const { return longest_; }

 private:
  // Most nodes have one child, which is the next node.
  struct Node {
    State fail = kRoot;
    uint32_t depth = 0;
    uint16_t match = kNoMatch;
    unsigned char next_byte = 0;
    bool has_next = false;
    bool has_branches = false;  // further children, in branches_
  };
  struct Branch {
    State parent = kRoot;
    unsigned char byte = 0;
    State child = kRoot;
  };

  void insert(const std::string& pattern, uint16_t index, size_t shared, std::vector<State>& path);
  void link(State parent, unsigned char byte, State child);
  void linkFailures();
  [[nodiscard]] State child(State state, unsigned char byte) const;
  [[nodiscard]] State branch(State state, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::array<State, 256> root_{};
  std::vector<Branch> branches_;  // sorted by parent and byte once all patterns are in
  std::vector<uint32_t> lengths_;
  uint32_t longest_ = 0;
};

}  // namespace cloister::redact
