// SPDX-License-Identifier: Apache-2.0
// P11: tries to become somebody: itself made setuid, and the host's setuid programs.
#define _GNU_SOURCE
#include <errno.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc > 1) {  // run again through the setuid bit
    printf("again uid %d euid %d\n", (int)getuid(), (int)geteuid());
    return 0;
  }
  printf("chmod %d\n", chmod(argv[0], 04755) == 0 ? 0 : errno);
  const char caps[20] = {1, 0, 0, 2};
  printf("filecaps %d\n", setxattr(argv[0], "security.capability", caps, 20, 0) == 0 ? 0 : errno);
  printf("setuid0 %d\n", setuid(0) == 0 ? 0 : errno);
  printf("setreuid0 %d\n", setresuid(0, 0, 0) == 0 ? 0 : errno);
  printf("chown %d\n", chown(argv[0], 0, 0) == 0 ? 0 : errno);
  fflush(stdout);
  if (fork() == 0) {
    execl(argv[0], argv[0], "again", (char*)0);
    _exit(99);
  }
  wait(0);
  static const char* const kTools[] = {"su -c id root", "sudo -n id", "mount -t tmpfs none /mnt",
                                       "newuidmap 1 0 0 1", "newgrp root"};
  for (size_t i = 0; i < sizeof kTools / sizeof *kTools; ++i) {
    char line[128];
    snprintf(line, sizeof line, "%s </dev/null >/dev/null 2>&1", kTools[i]);
    printf("tool %s -> %s\n", kTools[i], system(line) == 0 ? "worked" : "refused");
    fflush(stdout);
  }
  printf("end uid %d euid %d\n", (int)getuid(), (int)geteuid());
  return 0;
}
