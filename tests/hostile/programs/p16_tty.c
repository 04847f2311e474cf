// SPDX-License-Identifier: Apache-2.0
// P16: pushes bytes into every reachable terminal, and into a terminal of its own.
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <stdio.h>
#include <termios.h>

int main(void) {
  static const char* const kPaths[] = {"/dev/tty", "/dev/console"};
  int fds[7] = {0, 1, 2, -1, -1, -1, -1};
  for (int i = 0; i < 2; ++i) {
    fds[3 + i] = open(kPaths[i], O_RDWR | O_NOCTTY);
    printf("open %s %d\n", kPaths[i], fds[3 + i] < 0 ? errno : 0);
  }
  int locked = 0;
  fds[5] = open("/dev/ptmx", O_RDWR | O_NOCTTY);
  if (fds[5] >= 0 && ioctl(fds[5], TIOCSPTLCK, &locked) == 0) {
    fds[6] = ioctl(fds[5], TIOCGPTPEER, O_RDWR | O_NOCTTY);
  }
  printf("own %d\n", fds[6] < 0 ? 0 : 1);
  char c = 'x';
  int discipline = 2;
  for (int i = 0; i < 7; ++i) {
    if (fds[i] < 0) continue;
    printf("TIOCSTI %d %d\n", i, ioctl(fds[i], TIOCSTI, &c) == 0 ? 0 : errno);
    printf("TIOCLINUX %d %d\n", i, ioctl(fds[i], TIOCLINUX, &c) == 0 ? 0 : errno);
    printf("TIOCSETD %d %d\n", i, ioctl(fds[i], TIOCSETD, &discipline) == 0 ? 0 : errno);
    printf("TIOCCONS %d %d\n", i, ioctl(fds[i], TIOCCONS, 0) == 0 ? 0 : errno);
    // The upper half of the request is ignored by the kernel, and must be by the filter.
    printf("TIOCSTI-high %d %d\n", i, ioctl(fds[i], TIOCSTI | 0x100000000ul, &c) == 0 ? 0 : errno);
  }
  return 0;
}
