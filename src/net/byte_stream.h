// SPDX-License-Identifier: Apache-2.0
// ByteStream: the transport below a FrameConnection, a connected, reliable and ordered stream of
// bytes in both directions. unix_stream.h is the Unix socket. A new transport implements this
// interface and passes stream_suite.h. Transports differ in their capabilities: code that needs a
// capability asks for it, and refuses a stream without it.
//
// One thread; at most one read and one write at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>

namespace cloister::net {

class ByteStream {
 public:
  using Error = boost::system::error_code;
  // Called once, from the executor and never from within write(). Dropped with the executor's
  // context.
  using Written = std::function<void(Error)>;

  // The process at the other end, by the kernel's record.
  struct Peer {
    pid_t pid = 0;
    uid_t uid = 0;
  };

  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  [[nodiscard]] virtual boost::asio::any_io_executor executor() = 0;

  // Reads at least one byte, and returns the number of bytes. Bytes that the other end wrote before
  // its close() are read first, then an error follows. The caller keeps the stream and `into`.
  virtual boost::asio::awaitable<std::pair<Error, size_t>> read(
      boost::asio::mutable_buffer into) = 0;

  // Writes all bytes of `pieces` in their order, then calls `done`. The caller keeps the stream and
  // the bytes until then.
  virtual void write(std::vector<boost::asio::const_buffer> pieces, Written done) = 0;

  // Ends both directions; pending operations fail. Idempotent.
  virtual void close() = 0;

  // A capability: nullopt where the transport has no such record, such as TCP.
  [[nodiscard]] virtual std::optional<Peer> peer() const = 0;
};

}  // namespace cloister::net
