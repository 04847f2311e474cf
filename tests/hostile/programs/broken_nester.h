// SPDX-License-Identifier: Apache-2.0
// A broken runner's requests to the process that makes sandboxes within its own (src/wire/guest.h):
// packets of any kind, with any descriptors, on a socket that only the runner has.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { kNester = 4, kMostFds = 253, kAsks = 200, kWithin = 24 };

static int ask(const void* bytes, size_t size, const int* fds, size_t count) {
  static _Alignas(struct cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))];
  struct iovec packet = {(void*)bytes, size};
  struct msghdr message = {.msg_iov = &packet, .msg_iovlen = 1};
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
  }
  return sendmsg(kNester, &message, MSG_NOSIGNAL) == (ssize_t)size ? 0 : -1;
}

// Sends a request with an end of a stream, and returns the other end; -1 on failure.
static int askOnStream(const void* bytes, size_t size) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return -1;
  const int asked = ask(bytes, size, &ends[1], 1);
  close(ends[1]);
  if (asked == 0) return ends[0];
  close(ends[0]);
  return -1;
}

// Whether a runner greets on `stream` in time.
static int isGreeted(int stream, int millis) {
  struct {
    uint32_t length;
    uint16_t generation;
    uint16_t type;
    uint32_t channel;
  } head = {0};
  struct pollfd one = {stream, POLLIN, 0};
  if (poll(&one, 1, millis) != 1) return 0;
  return recv(stream, &head, sizeof head, MSG_WAITALL) == sizeof head && head.type == 65;
}

#define WITHIN(text) (text), sizeof(text)  // with the NUL behind the last
#define NO_MEMORY                                               \
  "cloister_cpus=1\0cloister_pids=16\0cloister_scratch=1048576" \
  "\0cloister_inodes=64\0cloister_noexec=0\0cloister_writes=0"  \
  "\0cloister_shares=0\0cloister_limits=7:64"
#define FINE "cloister_memory=67108864\0" NO_MEMORY

// Each request makes no sandbox, and harms only the requester.
static void askWildly(const char* noise, size_t noise_size) {
  static const struct {
    const char* bytes;
    size_t size;
  } kPackets[] = {
      {WITHIN("")},
      {"x", 1},
      {WITHIN("LD_PRELOAD=/workspace/evil.so")},
      {WITHIN("cloister_memory")},
      {"cloister_memory=1", 17},
      {WITHIN("cloister_memory=-1\0cloister_pids=-1\0cloister_scratch=-1\0cloister_cpus=-1")},
      {WITHIN("cloister_memory=99999999999999999999\0cloister_limits=7:1")},
      {WITHIN("cloister_limits=7")},
      {WITHIN("cloister_limits=99:1,-5:3")},
      {WITHIN("cloister_limits=:,:,:")},
      {WITHIN("cloister_shown=1\0cloister_vsock=1024\0cloister_limits=")},
      {WITHIN("cloister_a=1\0cloister_a=1\0cloister_a=1\0cloister_a=1\0cloister_a=1\0cloister_a=1\0"
              "cloister_a=1\0cloister_a=1\0cloister_a=1\0cloister_a=1\0cloister_a=1\0cloister_a=1\0"
              "cloister_a=1\0cloister_a=1\0cloister_a=1\0cloister_a=1\0cloister_a=1")},
      {WITHIN("cloister_scratch=1,size=100%,mode=7777\0cloister_limits=")},
  };
  for (size_t i = 0; i < sizeof kPackets / sizeof kPackets[0]; ++i) {
    const int stream = askOnStream(kPackets[i].bytes, kPackets[i].size);
    if (stream >= 0) close(stream);
    ask(kPackets[i].bytes, kPackets[i].size, NULL, 0);
  }
  for (size_t size = 1; size <= 4096; size *= 2) {
    const int stream = askOnStream(noise, size < noise_size ? size : noise_size);
    if (stream >= 0) close(stream);
  }
  // Descriptors other than a stream, or more than one.
  static int many[kMostFds];
  const int file = open("/workspace/stream", O_RDWR | O_CREAT, 0600);
  const int own = open("/proc/self/mem", O_RDWR);
  int pipes[2] = {-1, -1};
  if (pipe(pipes) != 0) return;
  const int wrong[] = {file, own, pipes[0], pipes[1], kNester};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i)
    if (wrong[i] >= 0) ask(WITHIN(FINE), &wrong[i], 1);
  for (size_t i = 0; i < kMostFds; ++i)
    many[i] = pipes[i % 2];
  ask(WITHIN(FINE), many, 2);
  ask(WITHIN(FINE), many, kMostFds);
  for (int i = 0; i < 2; ++i)
    close(pipes[i]);
  close(file);
  close(own);
}

// Breaks every other sandbox that greeted: a malformed frame ends its runner, while nobody reads
// the report, and nothing tells the stream's holder to stop. Gives the number of sandboxes expected
// to remain.
static int breakSome(const int* streams, const int* greeted, int count) {
  static const char no_frame[64] = {1, 2, 3, 4, 5, 6, 7, 8};
  int stand = 0;
  for (int i = 0, each = 0; i < count; ++i) {
    if (!greeted[i]) continue;
    if (each++ % 2 == 0) {
      shutdown(streams[i], SHUT_RD);
      send(streams[i], no_frame, sizeof no_frame, MSG_NOSIGNAL);
    } else {
      ++stand;
    }
  }
  usleep(500000);
  return stand;
}

// Requests more sandboxes than the bound, and again after some have ended. Gives the largest number
// of sandboxes that exist at once.
static int askForMany(const char* packet, size_t size) {
  static int streams[kAsks];
  static int greeted[kAsks];
  int stand = 0;
  for (int from = 0; from < kAsks; from += kAsks / 2) {
    const int to = from + kAsks / 2;
    if (from > 0) stand = breakSome(streams, greeted, from);
    for (int i = from; i < to; ++i)
      streams[i] = askOnStream(packet, size);
    for (int i = from; i < to; ++i) {
      greeted[i] = streams[i] >= 0 && isGreeted(streams[i], 20000);
      stand += greeted[i];
    }
  }
  for (int i = 0; i < kAsks; ++i)
    if (streams[i] >= 0) close(streams[i]);
  return stand;
}

// Whether an ordinary request still gets a sandbox; ended sandboxes make room in time.
static int isServed(void) {
  for (int tries = 0; tries < 100; ++tries) {
    const int stream = askOnStream(WITHIN(FINE));
    const int greeted = stream >= 0 && isGreeted(stream, 20000);
    close(stream);
    if (greeted) return 1;
    usleep(50000);
  }
  return 0;
}
