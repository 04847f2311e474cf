// SPDX-License-Identifier: Apache-2.0
#include "runner/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include <termios.h>

namespace cloister::runner {

int openTerminal(Fd& ours, Fd& theirs, uint16_t cols, uint16_t rows) {
  ours.reset(open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!ours) return errno;
  int locked = 0;
  if (ioctl(ours.get(), TIOCSPTLCK, &locked) != 0) return errno;
  // Not by its name, under which something else could have been put.
  theirs.reset(ioctl(ours.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  if (!theirs) return errno;
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
