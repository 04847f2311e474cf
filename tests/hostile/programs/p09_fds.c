// SPDX-License-Identifier: Apache-2.0
// P09: fds: opens files and sockets until refused; fail: the same, and fails with the refusal's
// error; few: opens ten and fails; core: dies and requests a core dump.
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
  const int most = argc > 1 && strcmp(argv[1], "few") == 0 ? 10 : 1000000;
  while (files < most && open("/dev/null", O_RDONLY) >= 0) {
    ++files;
    if (socket(AF_UNIX, SOCK_STREAM, 0) < 0) break;
    ++sockets;
  }
  printf("files %d sockets %d errno %d\n", files, sockets, errno);
  if (argc > 1 && strcmp(argv[1], "fail") == 0) perror("open");
  return argc > 1;
}
