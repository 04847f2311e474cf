// SPDX-License-Identifier: Apache-2.0
// Two processes, one for each way, so that neither waits for the other: a program that does not
// read its input holds up nothing but that.
#include "guest/relay.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>

#include "guest/machine.h"
#include "wire/frame.h"
#include "wire/runner.h"

namespace cloister::guest {
namespace {

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

[[noreturn]] void carryIn(int port, int socket) {
  for (;;) {
    const ssize_t n = read(port, the_frame, sizeof the_frame);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0 || !writeAll(socket, the_frame, static_cast<size_t>(n))) _exit(0);
  }
}

bool sayCounts(const Counts& counts, int port) {
  char frame[wire::kHeaderBytes + 3 * sizeof(uint64_t)];
  wire::encodeHeader(frame, static_cast<uint16_t>(wire::FromRunner::kCounts), 0,
                     3 * sizeof(uint64_t));
  wire::Writer w(frame + wire::kHeaderBytes, 3 * sizeof(uint64_t));
  w.u64(counts.memory_peak);
  w.u64(counts.killed);
  w.u64(counts.refused);
  return writeAll(port, frame, sizeof frame);
}

// One frame of the runner's. It is passed on as it is: the node judges it.
bool carryFrame(const Sandbox& sandbox, int port) {
  wire::FrameHeader header;
  if (!readAll(sandbox.socket(), the_frame, wire::kHeaderBytes)) return false;
  if (!wire::decodeHeader({the_frame, wire::kHeaderBytes}, header)) return false;
  if (header.length > wire::kRunnerMaxPayload) return false;
  if (!readAll(sandbox.socket(), the_frame + wire::kHeaderBytes, header.length)) return false;
  if (header.type == static_cast<uint16_t>(wire::FromRunner::kExited) &&
      !sayCounts(sandbox.counts(), port)) {
    return false;
  }
  return writeAll(port, the_frame, wire::kHeaderBytes + header.length);
}

void carryOut(const Sandbox& sandbox, int port) {
  uint64_t killed = 0;
  for (;;) {
    pollfd fds[] = {{sandbox.socket(), POLLIN, 0}, {sandbox.memoryEvents(), POLLPRI, 0}};
    if (poll(fds, 2, -1) < 0 && errno != EINTR) giveUp("poll");
    const Counts counts = fds[1].revents != 0 ? sandbox.counts() : Counts{.killed = killed};
    if (counts.killed > killed && !sayCounts(counts, port)) return;
    killed = counts.killed;
    if (fds[0].revents != 0 && !carryFrame(sandbox, port)) return;
  }
}

}  // namespace

void relay(const Sandbox& sandbox, int port) {
  const pid_t other = fork();
  if (other < 0) giveUp("fork");
  if (other == 0) carryIn(port, sandbox.socket());
  carryOut(sandbox, port);
  static_cast<void>(sayCounts(sandbox.counts(), port));
  // The port is nobody else's then, and closing it waits for what was written.
  kill(other, SIGKILL);
  static_cast<void>(waitpid(other, nullptr, 0));
}

}  // namespace cloister::guest
