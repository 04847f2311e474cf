// SPDX-License-Identifier: Apache-2.0
// cloister-walls ROOT FILE: applies an agent's confinement rules in the root of a virtual machine.
// Started by the machine's pid 1 (guest/walls.h), never by hand.
#include <fcntl.h>

#include <cstdio>

#include "confine/apply_walls.h"

namespace cloister {
namespace {

Result<> putUp(const char* root, const char* file) {
  const Fd walls(::open(file, O_RDONLY | O_CLOEXEC));
  if (!walls) return failErrno("opening the walls of an agent");
  return runtime::applyWalls(TRY(runtime::readWalls(walls.get())), root);
}

}  // namespace
}  // namespace cloister

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  const auto done = cloister::putUp(argv[1], argv[2]);
  if (!done) std::fprintf(stderr, "cloister-walls: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
