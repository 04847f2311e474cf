// SPDX-License-Identifier: Apache-2.0
// P03: does not want to die. ignore: signals ignored; stop: stops itself and its group; traced:
// fifty children that ask to be traced and stop.
#include <signal.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  const char* how = argc > 1 ? argv[1] : "ignore";
  puts("so far");
  fflush(stdout);
  if (strcmp(how, "ignore") == 0) {
    for (int sig = 1; sig < 65; ++sig)
      signal(sig, SIG_IGN);
  } else if (strcmp(how, "stop") == 0) {
    if (fork() == 0) raise(SIGSTOP);
    kill(0, SIGSTOP);
    raise(SIGSTOP);
  } else {
    for (int i = 0; i < 50; ++i) {
      if (fork() == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        for (;;)
          pause();
      }
    }
  }
  for (;;)
    pause();
}
