// SPDX-License-Identifier: Apache-2.0
// P08: full: writes until a refusal; inodes: empty files without end; deep N: N nested directories;
// sparse: a file of a terabyte.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char chunk[1 << 20];

static long full(void) {
  long mib = 0;
  for (int file = 0; file < 64; ++file) {
    char name[32];
    snprintf(name, sizeof name, "fill%d", file);
    const int fd = open(name, O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < 64; ++i, ++mib) {
      if (fd < 0 || write(fd, chunk, sizeof chunk) <= 0) return mib;
    }
    close(fd);
  }
  return mib;
}

static long inodes(void) {
  for (long n = 0; n < 5000000; ++n) {
    char name[32];
    snprintf(name, sizeof name, "f%ld", n);
    const int fd = open(name, O_WRONLY | O_CREAT, 0600);
    if (fd < 0) return n;
    close(fd);
  }
  return 5000000;
}

static long deep(long most) {
  for (long n = 0; n < most; ++n) {
    if (mkdir("d", 0700) != 0 || chdir("d") != 0) return n;
  }
  return most;
}

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "full";
  long n = -1;
  if (strcmp(how, "full") == 0) n = full();
  if (strcmp(how, "inodes") == 0) n = inodes();
  if (strcmp(how, "deep") == 0) n = deep(argc > 2 ? atol(argv[2]) : 20000);
  if (strcmp(how, "sparse") == 0) {
    n = ftruncate(open("sparse", O_RDWR | O_CREAT, 0600), 1LL << 40);
  }
  printf("%s %ld errno %d\n", how, n, errno);
  return 0;
}
