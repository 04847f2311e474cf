// SPDX-License-Identifier: Apache-2.0
// P15: system calls through the i386 gate (int 0x80) and the x32 numbers, each in a child that may
// be killed for the call. Prints "abi name result"; a negative result is an errno.
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdio.h>
#include <string.h>

static long int80(long nr, long a, long b) {
  long result;
  __asm__ volatile("int $0x80"
                   : "=a"(result)
                   : "a"(nr), "b"(a), "c"(b)
                   : "memory", "r8", "r9", "r10", "r11");
  return (int)result;
}

static long x32(long nr, long a, long b) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(nr | 0x40000000), "D"(a), "S"(b)
                   : "rcx", "r11", "memory");
  return result;
}

static void attempt(const char* abi, const char* name, long (*call)(long, long, long), long nr,
                    long a) {
  fflush(stdout);
  const pid_t pid = fork();
  if (pid == 0) {
    const long result = call(nr, a, 0);
    printf("%s %s %ld\n", abi, name, result);
    fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  if (WIFSIGNALED(status)) printf("%s %s killed %d\n", abi, name, WTERMSIG(status));
}

int main(void) {
  attempt("i386", "getpid", int80, 20, 0);
  attempt("i386", "unshare-user", int80, 310, 0x10000000);
  attempt("i386", "keyctl", int80, 288, 0);
  attempt("i386", "bpf", int80, 357, 0);
  attempt("i386", "ptrace", int80, 26, 0);
  attempt("i386", "mount", int80, 21, 0);
  attempt("x32", "getpid", x32, SYS_getpid, 0);
  attempt("x32", "unshare-user", x32, SYS_unshare, 0x10000000);
  attempt("x32", "keyctl", x32, SYS_keyctl, 0);
  attempt("x32", "bpf", x32, SYS_bpf, 0);
  attempt("x32", "ptrace", x32, 521, 0);
  puts("end");
  return 0;
}
