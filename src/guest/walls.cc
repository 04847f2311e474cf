// SPDX-License-Identifier: Apache-2.0
#include "guest/walls.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/machine.h"
#include "wire/guest.h"

namespace cloister::guest {
namespace {

[[noreturn]] void becomeProgram() {
  const int console = open("/dev/console", O_RDWR | O_NOCTTY);
  for (int fd = 0; console >= 0 && fd < 3; ++fd)
    dup2(console, fd);
  execl(wire::guest::kWallsProgram, wire::guest::kWallsProgram, kRoot, wire::guest::kWalls,
        static_cast<char*>(nullptr));
  _exit(127);
}

}  // namespace

void makeMasks() {
  if (mkdir("/run/masked", 0755) != 0 || mkdir(kMaskDirectory, 0) != 0 ||
      mknod(kMaskFile, S_IFREG, 0) != 0) {
    giveUp("making masks");
  }
}

void putUpWalls() {
  if (access(wire::guest::kWalls, F_OK) != 0) return;
  const pid_t child = fork();
  if (child < 0) giveUp("fork");
  if (child == 0) becomeProgram();
  int status = 0;
  if (waitpid(child, &status, 0) != child) giveUp("waiting for the walls");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) powerOff("the agent's walls do not stand");
}

}  // namespace cloister::guest
