// SPDX-License-Identifier: Apache-2.0
// Frames of src/wire/runner.h as sent by broken_guest.c: whole, with any content.
#pragma once

#include <errno.h>
#include <sys/reboot.h>
#include <unistd.h>

#include <stdint.h>
#include <string.h>

enum { kHeader = 12, kMost = 65536, kGeneration = 1 };
// To the runner.
enum { kText = 3, kStart = 4 };
// From the runner.
enum {
  kHello = 65,
  kStarted,
  kStartFailed,
  kStdout,
  kStderr,
  kExited,
  kFileBegin,
  kFileContent,
  kCollected,
  kFileFailed,
  kScratch,
  kStdinTaken,
  kCounts
};
enum { kGreetings = 901 };

static int the_port = 3;
static uint32_t the_channel;  // of the program to start
static int is_machine;

// --- frames

static void leave(void) {
  if (is_machine) reboot(RB_AUTOBOOT);
  _exit(1);
}

typedef ssize_t Move(int, char*, size_t);
static ssize_t sendSome(int to, char* bytes, size_t size) {
  return write(to, bytes, size);
}
static ssize_t takeSome(int from, char* bytes, size_t size) {
  return read(from, bytes, size);
}

static void all(Move* move, char* at, size_t size) {
  while (size > 0) {
    const ssize_t n = move(the_port, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) leave();
    at += n;
    size -= (size_t)n;
  }
}

static void put(const void* bytes, size_t size) {
  all(sendSome, (char*)bytes, size);
}
static void take(void* bytes, size_t size) {
  all(takeSome, bytes, size);
}

struct Header {
  uint32_t length;
  uint8_t generation, reserved;
  uint16_t type;
  uint32_t channel;
} __attribute__((packed));

static void header(uint32_t length, uint8_t generation, uint16_t type, uint32_t channel) {
  const struct Header head = {length, generation, 0, type, channel};
  put(&head, sizeof head);
}

static void frame(uint16_t type, uint32_t channel, const void* payload, uint32_t length) {
  header(length, kGeneration, type, channel);
  put(payload, length);
}

static void say(uint16_t type, const void* payload, uint32_t length) {
  frame(type, the_channel, payload, length);
}

static char the_noise[kMost];

static void makeNoise(void) {
  uint32_t state = 2463534242U;
  for (size_t i = 0; i < sizeof the_noise; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    the_noise[i] = (char)state;
  }
}

static void started(void) {
  say(kStarted, "", 0);
}

static void output(const char* text) {
  say(kStdout, text, (uint32_t)strlen(text));
}

struct Exit {
  uint8_t signaled;
  uint32_t value;
  uint64_t user, system, rss;
  uint32_t reaped;
} __attribute__((packed));

static void ended(uint32_t value, uint64_t big) {
  const struct Exit told = {0, value, big, big, big, (uint32_t)big};
  say(kExited, &told, sizeof told);
}

static void u32(uint16_t type, uint32_t value) {
  say(type, &value, sizeof value);
}

static void counts(uint64_t peak, uint64_t killed, uint64_t refused) {
  const uint64_t told[] = {peak, killed, refused};
  frame(kCounts, 0, told, sizeof told);
}

static void scratch(uint64_t bytes, uint64_t total, uint64_t inodes, uint64_t inodes_total) {
  const uint64_t told[] = {bytes, total, inodes, inodes_total};
  say(kScratch, told, sizeof told);
}

// u32 errno, bytes what; or bytes path, u64 size.
static void failed(uint16_t type, const char* what, uint32_t length) {
  static char payload[kMost];
  const uint32_t number = EIO;
  memcpy(payload, &number, 4);
  memcpy(payload + 4, &length, 4);
  memcpy(payload + 8, what, length);
  say(type, payload, 8 + length);
}

static void fileBegin(const char* path, uint32_t length, uint64_t size) {
  static char payload[kMost];
  memcpy(payload, &length, 4);
  memcpy(payload + 4, path, length);
  memcpy(payload + 4 + length, &size, 8);
  say(kFileBegin, payload, 12 + length);
}

static void file(const char* path) {
  fileBegin(path, (uint32_t)strlen(path), 4);
  say(kFileContent, "data", 4);
}
