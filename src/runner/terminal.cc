// SPDX-License-Identifier: Apache-2.0
#include "runner/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <stdio.h>
#include <termios.h>

namespace cloister::runner {
namespace {

// The major number of the programs' side (Linux: Documentation/admin-guide/devices.txt).
constexpr unsigned kTerminalMajor = 136;
constexpr int kOpenPeer = O_RDWR | O_NOCTTY | O_CLOEXEC;

bool isUnknownCall(int error) {
  return error == ENOTTY || error == EINVAL || error == ENOSYS;
}

}  // namespace

int openPeerByName(const Fd& ours, Fd& theirs) {
  unsigned number = 0;
  if (ioctl(ours.get(), TIOCGPTN, &number) != 0) return errno;
  char path[32];
  snprintf(path, sizeof path, "/dev/pts/%u", number);
  theirs.reset(open(path, kOpenPeer | O_NOFOLLOW | O_NONBLOCK));
  if (!theirs) return errno;
  struct stat mine{};
  struct stat other{};
  if (fstat(ours.get(), &mine) != 0 || fstat(theirs.get(), &other) != 0) return errno;
  const bool same = S_ISCHR(other.st_mode) && other.st_dev == mine.st_dev &&
                    major(other.st_rdev) == kTerminalMajor && minor(other.st_rdev) == number;
  if (!same) theirs.reset();
  if (!same) return ENXIO;
  return fcntl(theirs.get(), F_SETFL, O_RDWR) == 0 ? 0 : errno;
}

int openTerminal(Fd& ours, Fd& theirs, uint16_t cols, uint16_t rows) {
  ours.reset(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!ours) return errno;
  int locked = 0;
  if (ioctl(ours.get(), TIOCSPTLCK, &locked) != 0) return errno;
  // Not by its name if possible: another file could have the name.
  theirs.reset(ioctl(ours.get(), TIOCGPTPEER, kOpenPeer));
  if (!theirs && !isUnknownCall(errno)) return errno;
  if (!theirs) {
    if (const int error = openPeerByName(ours, theirs); error != 0) return error;
  }
  winsize size{};
  size.ws_col = cols;
  size.ws_row = rows;
  termios modes;
  if (ioctl(ours.get(), TIOCSWINSZ, &size) != 0 || tcgetattr(theirs.get(), &modes) != 0)
    return errno;
  modes.c_iflag |= IUTF8;
  return tcsetattr(theirs.get(), TCSANOW, &modes) == 0 ? 0 : errno;
}

}  // namespace cloister::runner
