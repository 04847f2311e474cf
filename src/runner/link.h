// SPDX-License-Identifier: Apache-2.0
// Link: the runner's end of the socket to the node. Frames in and out through fixed buffers, so
// that output is read from a program only when a buffer has room. If the node is gone or breaks the
// protocol, the process ends, and with pid 1 everything inside.
#pragma once

#include <sys/socket.h>

#include <string_view>

#include "base/fd.h"
#include "wire/frame.h"
#include "wire/runner.h"

namespace cloister::runner {

inline constexpr int kExitUsage = 64;     // not started as pid 1 of a sandbox
inline constexpr int kExitProtocol = 70;  // the node broke the protocol
inline constexpr int kExitSystem = 71;    // the kernel refused an indispensable call

[[noreturn]] void protocolError();

class Link {
 public:
  void open(int fd) { fd_ = fd; }
  [[nodiscard]] int fd() const { return fd_; }

  // Reads available bytes without waiting. Ends the process when the node has closed the socket.
  void receive();
  // Takes the descriptors received with earlier frames, in order; the caller closes the
  // descriptors. False if there are fewer.
  bool takeFds(Fd* into, size_t count);
  // The next complete frame; `payload` is valid until the next receive().
  bool next(wire::FrameHeader& header, std::string_view& payload);

  // True if a full frame fits without waiting.
  [[nodiscard]] bool hasRoom() const;
  // The buffer for up to kRunnerMaxPayload bytes of the next commit(); waits for room.
  char* payload();
  void commit(wire::FromRunner type, uint32_t channel, size_t length);
  // Sends a frame; waits for room.
  void send(wire::FromRunner type, uint32_t channel, std::string_view payload = {});

  // Writes as much as the socket accepts, without waiting.
  void flush();
  // Waits until all is written.
  void finish();
  // Waits for the next frame.
  void await(wire::FrameHeader& header, std::string_view& payload);
  [[nodiscard]] bool wantsWrite() const { return out_begin_ != out_end_; }

 private:
  static constexpr size_t kFrame = wire::kHeaderBytes + wire::kRunnerMaxPayload;

  void waitFor(short events) const;
  void keepFds(msghdr& message);

  int fd_ = -1;
  size_t fd_count_ = 0;
  Fd fds_[wire::kMaxGroups];
  size_t in_begin_ = 0;
  size_t in_end_ = 0;
  size_t out_begin_ = 0;
  size_t out_end_ = 0;
  char in_[2 * kFrame];
  char out_[4 * kFrame];
};

}  // namespace cloister::runner
