// SPDX-License-Identifier: Apache-2.0
// P07: memory in places that a limit may miss. Prints the amount taken in each place.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <stdint.h>
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

// Fills sockets of 127.0.0.1 without a reader, and reads the kept bytes in the end.
static long unread(int type) {
  enum { kMost = 900, kPiece = 32768 };
  static int to[kMost];
  struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof here;
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  bind(listener, (struct sockaddr*)&here, size);
  listen(listener, 16);
  getsockname(listener, (struct sockaddr*)&here, &size);
  int made = 0;
  for (; made < kMost; ++made) {
    const int from = socket(AF_INET, type, 0);
    if (type == SOCK_DGRAM) {
      to[made] = socket(AF_INET, type, 0);
      here.sin_port = 0;
      if (bind(to[made], (struct sockaddr*)&here, size) != 0) break;
      getsockname(to[made], (struct sockaddr*)&here, &size);
    }
    if (connect(from, (struct sockaddr*)&here, size) != 0) break;
    if (type == SOCK_STREAM && (to[made] = accept(listener, 0, 0)) < 0) break;
    fcntl(from, F_SETFL, O_NONBLOCK);
    for (int n = 0; n < 64 && write(from, chunk, kPiece) > 0; ++n) {
    }
    if (type == SOCK_DGRAM) close(from);
  }
  long bytes = 0;
  for (int i = 0; i < made; ++i) {
    for (ssize_t n = 0; (n = recv(to[i], chunk, kPiece, MSG_DONTWAIT)) > 0;)
      bytes += n;
  }
  return bytes / kChunk;
}

// Access control lists: 8,187 entries for the same user in each.
static long lists(void) {
  struct {
    uint32_t version;
    struct {
      uint16_t tag, permissions;
      uint32_t id;
    } entry[8191];
  } list = {.version = 2};
  static const uint16_t kLast[] = {4, 0x10, 0x20};  // group, mask, others
  const int count = sizeof list.entry / sizeof *list.entry;
  for (int i = 0; i < count; ++i) {
    const int last = i - (count - 3);
    list.entry[i].tag = i == 0 ? 1 : last >= 0 ? kLast[last] : 2;
    list.entry[i].permissions = 7;
    list.entry[i].id = list.entry[i].tag == 2 ? 1000 : 0xffffffff;
  }
  long made = 0;
  for (char name[32]; made < 2048; ++made) {
    snprintf(name, sizeof name, "/tmp/list%ld", made);
    if (mkdir(name, 0700) != 0) break;
    if (setxattr(name, "system.posix_acl_access", &list, sizeof list, 0) != 0) break;
    if (setxattr(name, "system.posix_acl_default", &list, sizeof list, 0) != 0) break;
  }
  return made / 8;
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
  if (strcmp(where, "tcp") == 0) n = unread(SOCK_STREAM);
  if (strcmp(where, "udp") == 0) n = unread(SOCK_DGRAM);
  if (strcmp(where, "lists") == 0) n = lists();
  if (strcmp(where, "mlock") == 0) {
    char* at = mmap(0, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    n = mlock(at, (size_t)1 << 30) == 0 ? 1024 : 0;
  }
  printf("%s %ld errno %d\n", where, n, errno);
  return 0;
}
