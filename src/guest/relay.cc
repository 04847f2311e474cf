// SPDX-License-Identifier: Apache-2.0
// Two processes, one for each direction, so that neither waits for the other. A program that does
// not read its input holds up nothing but the input.
#include "guest/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include <string.h>
#include <time.h>

#include "guest/machine.h"
#include "wire/frame.h"
#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::guest {
namespace {

constexpr int kLookEvery = 50;  // ms

char the_frame[wire::kHeaderBytes + wire::kRunnerMaxPayload];

// False at the other side's end.
bool writeAll(int to, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t n = write(to, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool readAll(int from, char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t n = read(from, bytes, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// Ends with `parent`, which otherwise would wait for this process.
[[noreturn]] void carryIn(const Sandbox& sandbox, int node, int runner, pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
  for (;;) {
    const ssize_t n = read(node, the_frame, sizeof the_frame);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || !writeAll(runner, the_frame, static_cast<size_t>(n))) break;
  }
  kill(sandbox.runner(), SIGKILL);
  _exit(0);
}

bool sayCounts(const Counts& counts, int node) {
  char frame[wire::kHeaderBytes + 3 * sizeof(uint64_t)];
  wire::encodeHeader(frame, static_cast<uint16_t>(wire::FromRunner::kCounts), 0,
                     3 * sizeof(uint64_t));
  wire::Writer w(frame + wire::kHeaderBytes, 3 * sizeof(uint64_t));
  w.u64(counts.memory_peak);
  w.u64(counts.killed);
  w.u64(counts.refused);
  return writeAll(node, frame, sizeof frame);
}

// The next frame, into the_frame.
bool readFrame(int from, wire::FrameHeader& header) {
  if (!readAll(from, the_frame, wire::kHeaderBytes)) return false;
  if (!wire::decodeHeader({the_frame, wire::kHeaderBytes}, header)) return false;
  if (header.length > wire::kRunnerMaxPayload) return false;
  return readAll(from, the_frame + wire::kHeaderBytes, header.length);
}

// The received part of the runner's next frame, in the_frame.
struct Coming {
  size_t have = 0;
  wire::FrameHeader header;  // valid once complete

  [[nodiscard]] bool headed() const { return have >= wire::kHeaderBytes; }
  [[nodiscard]] size_t size() const { return wire::kHeaderBytes + (headed() ? header.length : 0); }
};

// Reads available bytes without waiting: a runner that stops in the middle of a frame must not keep
// its sandbox from being checked. False when no more frames will come.
bool take(Coming& coming, int runner) {
  const bool headed = coming.headed();
  const ssize_t n = read(runner, the_frame + coming.have, coming.size() - coming.have);
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) return false;
  coming.have += static_cast<size_t>(n);
  if (headed || !coming.headed()) return true;
  return wire::decodeHeader({the_frame, wire::kHeaderBytes}, coming.header) &&
         coming.header.length <= wire::kRunnerMaxPayload;
}

// Forwards a whole frame of the runner unchanged: the node judges the frame.
bool pass(const Coming& whole, const Sandbox& sandbox, int node) {
  if (whole.header.type == static_cast<uint16_t>(wire::FromRunner::kExited) &&
      !sayCounts(sandbox.counts(), node)) {
    return false;
  }
  return writeAll(node, the_frame, whole.size());
}

// False at the end.
bool carryFrame(Coming& coming, const Sandbox& sandbox, int runner, int node) {
  if (!take(coming, runner)) return false;
  if (!coming.headed() || coming.have < coming.size()) return true;
  const bool passed = pass(coming, sandbox, node);
  coming = {};
  return passed;
}

int64_t now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
}

void carryOut(Sandbox& sandbox, int runner, int node) {
  uint64_t killed = 0;
  int64_t looked = 0;
  Coming coming;
  for (;;) {
    pollfd fds[] = {{runner, POLLIN, 0}, {sandbox.events(), POLLPRI, 0}};
    const int ready = poll(fds, 2, sandbox.isLookedAt() ? kLookEvery : -1);
    if (ready < 0 && errno != EINTR) giveUp("poll");
    const bool looks = sandbox.isLookedAt() && now() - looked >= kLookEvery;
    if (looks) {
      sandbox.look();
      looked = now();
    }
    const bool news = looks || fds[1].revents != 0;
    const Counts counts = news ? sandbox.counts() : Counts{.killed = killed};
    if (counts.killed > killed && !sayCounts(counts, node)) return;
    killed = counts.killed;
    if (ready > 0 && fds[0].revents != 0 && !carryFrame(coming, sandbox, runner, node)) {
      return;
    }
  }
}

// Seeds the kernel's random numbers with bytes unique to this machine, credited in full, and with
// the processor's, which the kernel mixes in. Numbers drawn in advance become void.
void seedRandom(const char* bytes, size_t size) {
  alignas(rand_pool_info) char buffer[sizeof(rand_pool_info) + wire::guest::kWakeEntropy];
  auto* const pool = reinterpret_cast<rand_pool_info*>(buffer);
  pool->entropy_count = static_cast<int>(8 * size);
  pool->buf_size = static_cast<int>(size);
  memcpy(pool->buf, bytes, size);
  const Fd random(open("/dev/urandom", O_WRONLY | O_CLOEXEC));
  if (!random || ioctl(random.get(), RNDADDENTROPY, pool) != 0 ||
      ioctl(random.get(), RNDRESEEDCRNG) != 0) {
    giveUp("seeding random numbers");
  }
}

void setClock(int64_t seconds, uint32_t nanoseconds) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>(nanoseconds);
  if (clock_settime(CLOCK_REALTIME, &time) != 0) giveUp("setting the clock");
}

// False when the node has hung up instead.
bool takeWake(int node) {
  using wire::guest::ToGuest;
  wire::FrameHeader header;
  if (!readFrame(node, header)) return false;
  if (header.type != static_cast<uint16_t>(ToGuest::kWake) || header.channel != 0 ||
      header.length != wire::guest::kWakeBytes) {
    powerOff("woken by something else");
  }
  wire::Reader r({the_frame + wire::kHeaderBytes + wire::guest::kWakeEntropy,
                  wire::guest::kWakeBytes - wire::guest::kWakeEntropy});
  const int64_t seconds = r.i64();
  seedRandom(the_frame + wire::kHeaderBytes, wire::guest::kWakeEntropy);
  setClock(seconds, r.u32());
  explicit_bzero(the_frame, sizeof the_frame);
  char answer[wire::kHeaderBytes];
  wire::encodeHeader(answer, static_cast<uint16_t>(wire::guest::FromGuest::kAwake), 0, 0);
  return writeAll(node, answer, sizeof answer);
}

}  // namespace

void sleepUntilWoken(int runner, Fd& node) {
  wire::FrameHeader header;
  if (!readFrame(runner, header) ||
      !writeAll(node.get(), the_frame, wire::kHeaderBytes + header.length)) {
    powerOff("no word from the runner");
  }
  const bool again = connectsToNode();
  do {
    if (again) node = reopenPort(std::move(node));
    if (takeWake(node.get())) return;
  } while (again);
  powerOff(nullptr);
}

void relay(Sandbox& sandbox, int runner, int node) {
  const pid_t self = getpid();
  const pid_t other = fork();
  if (other < 0) giveUp("fork");
  if (other == 0) carryIn(sandbox, node, runner, self);
  carryOut(sandbox, runner, node);
  static_cast<void>(sayCounts(sandbox.counts(), node));
  // Afterwards no other process has the node's stream, so that closing waits for the written data.
  kill(other, SIGKILL);
  static_cast<void>(waitpid(other, nullptr, 0));
}

}  // namespace cloister::guest
