// SPDX-License-Identifier: Apache-2.0
// P07: memory in places that a limit may not look at. Prints how much it could take of each.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kChunk = 1 << 20 };
static char chunk[kChunk];

static long fill(int fd) {
  long mib = 0;
  while (mib < 4096 && write(fd, chunk, kChunk) == kChunk)
    ++mib;
  return mib;
}

static long sysvShm(void) {
  long mib = 0;
  for (; mib < 1024; ++mib) {
    const int id = shmget(IPC_PRIVATE, kChunk, IPC_CREAT | 0600);
    char* at = id < 0 ? (char*)-1 : shmat(id, 0, 0);
    if (at == (char*)-1) break;
    memset(at, 1, kChunk);
    shmdt(at);
  }
  return mib;
}

static long pipes(void) {
  long mib = 0;
  for (;; ++mib) {
    int ends[2];
    if (pipe2(ends, O_NONBLOCK) != 0) break;
    fcntl(ends[1], F_SETPIPE_SZ, kChunk);
    while (write(ends[1], chunk, 65536) > 0) {
    }
  }
  return mib;
}

static long sockets(void) {
  long n = 0;
  for (;; ++n) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0) break;
    const int size = kChunk;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    while (write(ends[0], chunk, 65536) > 0) {
    }
  }
  return n;
}

int main(int argc, char** argv) {
  const char* where = argc > 1 ? argv[1] : "shm";
  memset(chunk, 7, sizeof chunk);
  long n = 0;
  if (strcmp(where, "shm") == 0) n = fill(open("/dev/shm/fill", O_WRONLY | O_CREAT, 0600));
  if (strcmp(where, "tmp") == 0) n = fill(open("/tmp/fill", O_WRONLY | O_CREAT, 0600));
  if (strcmp(where, "memfd") == 0) n = fill(memfd_create("fill", 0));
  if (strcmp(where, "sysv") == 0) n = sysvShm();
  if (strcmp(where, "pipes") == 0) n = pipes();
  if (strcmp(where, "sockets") == 0) n = sockets();
  if (strcmp(where, "mlock") == 0) {
    char* at = mmap(0, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    n = mlock(at, (size_t)1 << 30) == 0 ? 1024 : 0;
  }
  printf("%s %ld errno %d\n", where, n, errno);
  return 0;
}
