// SPDX-License-Identifier: Apache-2.0
// P05: held: the program ends, a grandchild keeps its stdout open. closed: closes all three and
// lives.
#include <unistd.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "closed") == 0) {
    close(0);
    close(1);
    close(2);
    for (;;)
      pause();
  }
  if (fork() == 0) {
    setsid();
    if (fork() == 0) {
      for (;;)
        pause();
    }
    _exit(0);
  }
  puts("parent says goodbye");
  return 0;
}
