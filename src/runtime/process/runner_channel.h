// SPDX-License-Identifier: Apache-2.0
// The node's end of a runner's socket: frames in, frames out (wire/runner.h). What comes in is
// hostile: a frame that is too long or malformed ends the connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include "base/fd.h"
#include "base/result.h"
#include "runtime/runtime.h"
#include "wire/frame.h"
#include "wire/runner.h"

namespace cloister::runtime {

struct RunnerFrame {
  wire::FromRunner type{};
  uint32_t channel = 0;
  std::string_view payload;  // valid until the next read
};

class RunnerChannel {
 public:
  RunnerChannel(const boost::asio::any_io_executor& executor, Fd socket);

  [[nodiscard]] int fd() const { return fd_; }
  // Something has come that was not read yet.
  [[nodiscard]] bool buffered() const { return begin_ < end_; }

  // kUnavailable: the runner has closed. kInvalid: it broke the protocol.
  Task<Result<RunnerFrame>> read();
  // Whole frames, as of addFrame(). One write at a time.
  Task<Result<>> write(std::string_view frames);

 private:
  int fd_;  // of socket_
  boost::asio::local::stream_protocol::socket socket_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // of what is buffered and not yet given out
  size_t end_ = 0;
};

// Appends one frame; `payload` is at most kRunnerMaxPayload.
void addFrame(std::string& out, wire::ToRunner type, uint32_t channel, std::string_view payload);

}  // namespace cloister::runtime
