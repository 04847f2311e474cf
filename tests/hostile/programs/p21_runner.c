// SPDX-License-Identifier: Apache-2.0
// P21: attacks pid 1. Prints "what errno" for each try; errno 0 means success.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <stdio.h>

static void say(const char* what, long result) {
  printf("%s %d\n", what, result < 0 ? errno : 0);
}

int main(void) {
  say("write-self-exe", open("/proc/self/exe", O_WRONLY));
  say("write-1-exe", open("/proc/1/exe", O_WRONLY));
  say("read-1-exe", open("/proc/1/exe", O_RDONLY));
  say("read-1-mem", open("/proc/1/mem", O_RDONLY));
  say("write-1-mem", open("/proc/1/mem", O_RDWR));
  say("read-1-environ", open("/proc/1/environ", O_RDONLY));
  say("read-1-maps", open("/proc/1/maps", O_RDONLY));
  say("read-1-fd", open("/proc/1/fd/3", O_RDWR));
  say("chdir-1-root", chdir("/proc/1/root"));
  say("chdir-1-cwd", chdir("/proc/1/cwd"));
  char byte = 0;
  struct iovec local = {&byte, 1};
  struct iovec remote = {(void*)0x400000, 1};
  say("process_vm_readv", process_vm_readv(1, &local, 1, &remote, 1, 0));
  say("ptrace-attach", ptrace(PTRACE_ATTACH, 1, 0, 0));
  say("ptrace-seize", ptrace(PTRACE_SEIZE, 1, 0, 0));
  struct rlimit none = {0, 0};
  say("prlimit", prlimit(1, RLIMIT_NOFILE, &none, 0));
  // A signal to pid 1 may be accepted, and must do nothing: the run goes on to say so.
  kill(1, SIGKILL);
  kill(1, SIGSTOP);
  kill(1, SIGTERM);
  puts("end");
  return 0;
}
