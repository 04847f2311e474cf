// SPDX-License-Identifier: Apache-2.0
// P09: fds: opens files and sockets until refused; core: dies with a core dump asked for.
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "core") == 0) {
    const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    printf("setrlimit %d\n", setrlimit(RLIMIT_CORE, &all));
    fflush(stdout);
    *(volatile int*)0 = 1;
  }
  int files = 0;
  int sockets = 0;
  while (open("/dev/null", O_RDONLY) >= 0 && files < 1000000) {
    ++files;
    if (socket(AF_UNIX, SOCK_STREAM, 0) < 0) break;
    ++sockets;
  }
  printf("files %d sockets %d errno %d\n", files, sockets, errno);
  return 0;
}
