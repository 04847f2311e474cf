// SPDX-License-Identifier: Apache-2.0
#include "audit/proof_tree.h"

#include <algorithm>

#include "model/inclusion_proof.h"

namespace cloister::audit {
namespace {

constexpr auto kDepth = static_cast<unsigned>(model::kProofDepth);

// What a keyed digest is for.
constexpr char kPlace = 'p';
constexpr char kGap = 'g';

uint64_t lowBit(unsigned depth) {
  return uint64_t{1} << (kDepth - depth);
}

// The place of an entry under the period's key.
uint64_t placeUnder(const base::Digest& key, uint64_t position) {
  std::string bytes(1, kPlace);
  const base::Digest digest = base::keyedDigest(key, bytes.append(base::bigEndian64(position)));
  uint64_t place = 0;
  for (size_t i = 0; i < sizeof place; ++i)
    place = place << 8 | digest[i];
  return place;
}

}  // namespace

Result<ProofTree> ProofTree::build(const std::string& secret,
                                   const std::vector<store::EntryHash>& entries,
                                   const std::atomic<bool>& stop) {
  ProofTree tree(TRY(base::digestFromHex(secret)));
  tree.leaves_.reserve(entries.size());
  for (const store::EntryHash& entry : entries) {
    const auto hash = base::digestFromHex(entry.hash);
    if (!hash) {
      return fail(Code::kInternal,
                  "entry " + std::to_string(entry.position) + ": its hash " + hash.error().message);
    }
    tree.leaves_.push_back({.place = placeUnder(tree.key_, entry.position), .hash = *hash});
  }
  std::ranges::sort(tree.leaves_, {}, &Leaf::place);
  if (std::ranges::adjacent_find(tree.leaves_, {}, &Leaf::place) != tree.leaves_.end()) {
    return fail(Code::kInternal, "two entries of a period have the same place");
  }
  tree.root_ = tree.digestOf({0, 0}, 0, tree.leaves_.size(), stop);
  if (stop) return fail(Code::kUnavailable, "the service is stopping");
  return tree;
}

uint64_t ProofTree::placeOf(uint64_t position) const {
  return placeUnder(key_, position);
}

base::Digest ProofTree::gap(const Node& node) const {
  std::string bytes{kGap, static_cast<char>(node.first)};
  return base::keyedDigest(key_, bytes.append(base::bigEndian64(node.second)));
}

// The digest of a subtree with a single entry.
base::Digest ProofTree::alone(const Leaf& leaf, unsigned depth) const {
  base::Digest digest = model::leafDigest(leaf.place, leaf.hash);
  for (unsigned at = kDepth; at > depth; --at) {
    const uint64_t bit = lowBit(at);
    const uint64_t prefix = leaf.place & ~(bit - 1);  // of the node at depth `at`
    const base::Digest beside = gap({at, prefix ^ bit});
    digest = (leaf.place & bit) != 0 ? model::nodeDigest(beside, digest)
                                     : model::nodeDigest(digest, beside);
  }
  return digest;
}

// At most kDepth calls deep.
base::Digest ProofTree::digestOf(const Node& node, size_t begin, size_t end,
                                 const std::atomic<bool>& stop) {
  if (begin == end || stop) return gap(node);
  base::Digest digest{};
  if (end - begin == 1) {
    digest = alone(leaves_[begin], node.first);
  } else {
    const uint64_t bit = lowBit(node.first + 1);
    const auto first = leaves_.begin();
    const auto middle = std::partition_point(
        first + static_cast<ptrdiff_t>(begin), first + static_cast<ptrdiff_t>(end),
        [bit](const Leaf& leaf) { return (leaf.place & bit) == 0; });
    const auto split = static_cast<size_t>(middle - first);
    digest = model::nodeDigest(digestOf({node.first + 1, node.second}, begin, split, stop),
                               digestOf({node.first + 1, node.second | bit}, split, end, stop));
  }
  known_.emplace(node, digest);
  return digest;
}

base::Digest ProofTree::sibling(const Node& node) const {
  const auto found = known_.find(node);
  return found == known_.end() ? gap(node) : found->second;
}

std::vector<base::Digest> ProofTree::siblings(uint64_t position) const {
  const uint64_t place = placeOf(position);
  std::vector<base::Digest> all;
  all.reserve(kDepth);
  for (unsigned depth = kDepth; depth > 0; --depth) {
    const uint64_t bit = lowBit(depth);
    all.push_back(sibling({depth, (place & ~(bit - 1)) ^ bit}));
  }
  return all;
}

}  // namespace cloister::audit
