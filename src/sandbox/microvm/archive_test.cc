// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/archive.h"

#include <sys/stat.h>

#include <gtest/gtest.h>

namespace cloister::runtime::microvm {
namespace {

TEST(Archive, HasItsEntriesAndNoOthers) {
  const std::string bytes = makeArchive({{"modules", S_IFDIR | 0755, ""},
                                         {"modules/01-one.ko", S_IFREG | 0444, "12345"},
                                         {"modules-network", S_IFDIR | 0755, ""}});
  for (const char* name : {"modules", "modules/01-one.ko", "modules-network"})
    EXPECT_TRUE(archiveHas(bytes, name)) << name;
  for (const char* name : {"", "module", "modules-networks", "12345", "TRAILER"})
    EXPECT_FALSE(archiveHas(bytes, name)) << name;
  const std::string second = makeArchive({}) + bytes;
  EXPECT_FALSE(archiveHas(second, "modules")) << "of another archive";
}

TEST(Archive, ThatIsBrokenHasNothingBehind) {
  const std::string bytes =
      makeArchive({{"a", S_IFREG | 0444, "12345"}, {"b", S_IFREG | 0444, ""}});
  for (size_t size = 0; size < bytes.size(); ++size)
    static_cast<void>(archiveHas(std::string_view(bytes).substr(0, size), "b"));
  EXPECT_FALSE(archiveHas(std::string_view(bytes).substr(0, 150), "b"));
  std::string odd = bytes;
  odd.replace(6 + 8 * 6, 8, "ffffffff");  // the content's size
  EXPECT_FALSE(archiveHas(odd, "b"));
  odd = bytes;
  odd.replace(6 + 8 * 11, 8, "0000000g");  // the name's
  EXPECT_FALSE(archiveHas(odd, "a"));
  EXPECT_FALSE(archiveHas("", "a"));
}

}  // namespace
}  // namespace cloister::runtime::microvm
