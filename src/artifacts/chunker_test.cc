// SPDX-License-Identifier: Apache-2.0
#include "artifacts/chunker.h"

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace cloister::artifacts {
namespace {

std::string noise(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string out(size, '\0');
  for (char& c : out)
    c = static_cast<char>(random());
  return out;
}

std::vector<std::string> cut(std::string_view bytes, size_t step) {
  std::vector<std::string> out;
  Chunker chunker;
  while (!bytes.empty()) {
    const size_t taken = chunker.feed(bytes.substr(0, step));
    bytes.remove_prefix(taken);
    if (chunker.whole()) out.push_back(chunker.take());
  }
  if (!chunker.empty()) out.push_back(chunker.take());
  return out;
}

TEST(Chunker, CutsBetweenItsBoundsAndLosesNothing) {
  const std::string bytes = noise(size_t{20} << 20, 1);
  const auto pieces = cut(bytes, 65'536);
  std::string together;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i + 1 < pieces.size()) EXPECT_GE(pieces[i].size(), Chunker::kMin);
    EXPECT_LE(pieces[i].size(), Chunker::kMax);
    together += pieces[i];
  }
  EXPECT_TRUE(together == bytes);
  EXPECT_GT(pieces.size(), 8U);
}

TEST(Chunker, WhereItCutsDoesNotDependOnHowTheBytesCome) {
  const std::string bytes = noise(size_t{6} << 20, 2);
  EXPECT_TRUE(cut(bytes, 1000) == cut(bytes, 1'000'000));
}

TEST(Chunker, AnInsertionChangesThePiecesAroundIt) {
  const std::string bytes = noise(size_t{24} << 20, 3);
  std::string changed = bytes;
  changed.insert(size_t{12} << 20, "inserted");
  const auto before = cut(bytes, 65'536);
  const auto after = cut(changed, 65'536);
  const std::set<std::string> known(before.begin(), before.end());
  const auto added =
      std::ranges::count_if(after, [&](const auto& piece) { return !known.contains(piece); });
  EXPECT_GE(added, 1);
  EXPECT_LE(added, 3);
}

TEST(Chunker, WithoutAnyCutInTheContentItCutsAtItsBound) {
  const auto pieces = cut(std::string(size_t{9} << 20, '\0'), 65'536);
  EXPECT_LE(pieces[0].size(), Chunker::kMax);
  EXPECT_TRUE(pieces[0] == pieces[1]) << "and always the same";
}

}  // namespace
}  // namespace cloister::artifacts
