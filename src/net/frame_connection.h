// SPDX-License-Identifier: Apache-2.0
// FrameConnection: frames (wire/frame.h) over a ByteStream, used by both ends of a link between the
// control plane and a node, or cloister-egress. Reading is buffered and strictly bounded; writes
// are queued, gathered and bounded. One thread. Always in a shared_ptr, also held by pending
// writes.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "async/signal.h"
#include "base/result.h"
#include "net/byte_stream.h"
#include "wire/frame.h"

namespace cloister::net {

struct Frame {
  uint16_t type = 0;
  uint32_t channel = 0;
  std::string payload;
};

class FrameConnection : public std::enable_shared_from_this<FrameConnection> {
 public:
  using Stream = std::unique_ptr<ByteStream>;

  explicit FrameConnection(Stream stream);

  // The next frame. Memory grows with the arriving bytes, never with a claimed length.
  // kUnavailable: the stream ended; kInvalid: not a frame, or longer than `max_payload`.
  boost::asio::awaitable<Result<Frame>> read(uint32_t max_payload);

  // Queues a frame, after waiting while too many bytes are queued. False once closed.
  boost::asio::awaitable<bool> send(uint16_t type, uint32_t channel, std::string payload);
  // Queues a small frame without waiting. A peer with too many queued frames is disconnected.
  void post(uint16_t type, uint32_t channel, std::string payload = {});

  // Ends reads and writes; queued frames are dropped. Idempotent.
  void close();
  [[nodiscard]] bool closed() const { return closed_; }
  // Bytes received so far, including the bytes of an incomplete frame.
  [[nodiscard]] uint64_t received() const { return received_; }
  // True while send() would wait.
  [[nodiscard]] bool congested() const;

 private:
  struct Outgoing {
    std::array<char, wire::kHeaderBytes> header;
    std::string payload;
  };

  boost::asio::awaitable<Result<>> readPayload(std::string& payload, size_t length);
  boost::asio::awaitable<Result<>> fill(size_t wanted);
  void enqueue(uint16_t type, uint32_t channel, std::string payload);
  void pump();
  void written(size_t frames);

  Stream stream_;
  std::vector<char> buffer_;
  size_t begin_ = 0;  // unread bytes of buffer_: [begin_, end_)
  size_t end_ = 0;
  std::deque<Outgoing> queue_;
  size_t queued_bytes_ = 0;
  uint64_t received_ = 0;
  bool writing_ = false;
  bool closed_ = false;
  async::Signal drained_;
};

}  // namespace cloister::net
