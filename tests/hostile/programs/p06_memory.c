// SPDX-License-Identifier: Apache-2.0
// P06: touches four times its limit: in one process, or as a hundred processes of 10 MiB each.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void touch(size_t bytes) {
  char* at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) _exit(12);
  for (size_t i = 0; i < bytes; i += 4096)
    at[i] = (char)(i >> 12 | 1);
}

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "many") == 0) {
    for (int i = 0; i < 100; ++i) {
      if (fork() == 0) {
        touch((size_t)10 << 20);
        for (;;)
          pause();
      }
    }
    for (;;)
      pause();
  }
  touch((size_t)1 << 30);
  puts("had it all");
  return 0;
}
