// SPDX-License-Identifier: Apache-2.0
// The tree over the entries of one period (docs/AUDIT.md, "Proofs for one entry"):
// model::kProofDepth levels, each leaf at a place that only the period's secret gives, and each
// empty subtree with a digest that nobody can tell from the digest of a subtree with entries.
//
// Costs some 130 digests and 300 bytes for each entry. Not thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/result.h"
#include "store/root_store.h"

namespace cloister::audit {

class ProofTree {
 public:
  // kInternal: an entry's hash is not one, or two entries have the same place (the secret must be
  // another; never seen). `stop`: kUnavailable as soon as it is true.
  static Result<ProofTree> build(const std::string& secret,
                                 const std::vector<store::EntryHash>& entries,
                                 const std::atomic<bool>& stop);

  [[nodiscard]] const base::Digest& root() const { return root_; }
  [[nodiscard]] size_t size() const { return leaves_.size(); }
  // The place of the entry at the position.
  [[nodiscard]] uint64_t placeOf(uint64_t position) const;
  // The lowest first. The entry is one of the period.
  [[nodiscard]] std::vector<base::Digest> siblings(uint64_t position) const;

 private:
  struct Leaf {
    uint64_t place = 0;
    base::Digest hash{};
  };
  // A subtree: its depth below the root, and the common first bits of its places; the other bits
  // are zero.
  using Node = std::pair<unsigned, uint64_t>;

  explicit ProofTree(const base::Digest& key) : key_(key) {}
  [[nodiscard]] base::Digest gap(const Node& node) const;
  base::Digest digestOf(const Node& node, size_t begin, size_t end, const std::atomic<bool>& stop);
  [[nodiscard]] base::Digest alone(const Leaf& leaf, unsigned depth) const;
  [[nodiscard]] base::Digest sibling(const Node& node) const;

  base::Digest key_;
  std::vector<Leaf> leaves_;            // by place
  std::map<Node, base::Digest> known_;  // subtrees with several entries, and their children
  base::Digest root_{};
};

}  // namespace cloister::audit
