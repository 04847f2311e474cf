// SPDX-License-Identifier: Apache-2.0
// A layer in an import: decompressed, read as a tar, and made into a tree. For any input, the tree
// can be finished or is refused, and nothing beside the tree is touched.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <string>
#include <utility>

#include <stdlib.h>

#include "base/fd.h"
#include "images/finish_tree.h"
#include "images/layer.h"
#include "images/names.h"
#include "images/remove_tree.h"

#include "require.h"

using cloister::Fd;
using cloister::Result;
namespace images = cloister::images;

namespace {

constexpr images::Bounds kBounds{.bytes = 1 << 20, .files = 200};

class Bytes : public images::Source {
 public:
  explicit Bytes(std::string_view bytes) : bytes_(bytes) {}
  Result<std::string_view> next() override { return std::exchange(bytes_, {}); }

 private:
  std::string_view bytes_;
};

// A directory for all inputs; each input makes `root` in it anew.
int work() {
  static const Fd directory = [] {
    std::setlocale(LC_CTYPE, "C.UTF-8");
    static char path[] = "/dev/shm/fuzz-layer.XXXXXX";  // no disk to wait for
    REQUIRE(::mkdtemp(path) != nullptr);
    std::atexit([] { std::ignore = images::removeTree(AT_FDCWD, path); });
    return Fd(::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }();
  return directory.get();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  REQUIRE(images::removeTree(work(), "root"));
  REQUIRE(::mkdirat(work(), "root", 0755) == 0);
  const Fd root(::openat(work(), "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  images::Tree tree(root.get(), kBounds);
  // Twice: as the lower layer, and as the upper layer.
  for (int round = 0; round < 2; ++round) {
    Bytes bytes({reinterpret_cast<const char*>(data), size});
    uint64_t budget = kBounds.bytes;
    images::PlainSource tar(bytes, budget);
    const auto applied = images::applyLayer(tar, tree, true);
    if (!applied) REQUIRE(!applied.error().message.empty());
  }
  REQUIRE(images::namesIn(work()) == std::vector<std::string>{"root"});
  const auto finished = images::finishTree(root.get(), kBounds);
  REQUIRE(finished || !finished.error().message.empty());
  return 0;
}
