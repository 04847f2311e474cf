// SPDX-License-Identifier: Apache-2.0
// For tests: connected pairs of ByteStreams.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/error.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/signal.h"
#include "async/spawn.h"
#include "net/byte_stream.h"
#include "net/unix_stream.h"

namespace cloister::net {

using StreamPair = std::pair<std::unique_ptr<ByteStream>, std::unique_ptr<ByteStream>>;

inline StreamPair unixPair(const boost::asio::any_io_executor& executor) {
  boost::asio::local::stream_protocol::socket one(executor);
  boost::asio::local::stream_protocol::socket other(executor);
  boost::asio::local::connect_pair(one, other);
  return {unixStream(std::move(one)), unixStream(std::move(other))};
}

// A stream without the kernel. Holds a bounded number of bytes under way, like a socket. Has the
// record of a peer that the test gives.
class MemoryStream final : public ByteStream {
 public:
  static StreamPair pair(const boost::asio::any_io_executor& executor,
                         std::optional<Peer> peer = std::nullopt) {
    auto there = std::make_shared<Pipe>(executor);
    auto back = std::make_shared<Pipe>(executor);
    return {std::make_unique<MemoryStream>(back, there, peer),
            std::make_unique<MemoryStream>(there, back, peer)};
  }

  struct Pipe {
    explicit Pipe(const boost::asio::any_io_executor& executor) : changed(executor) {}
    std::string bytes;
    Error reading{};  // of the next reads, once `bytes` is empty
    Error writing{};  // of the next writes
    async::Signal changed;
  };

  MemoryStream(std::shared_ptr<Pipe> in, std::shared_ptr<Pipe> out, std::optional<Peer> peer)
      : in_(std::move(in)), out_(std::move(out)), peer_(peer) {}
  MemoryStream(const MemoryStream&) = delete;
  MemoryStream& operator=(const MemoryStream&) = delete;
  ~MemoryStream() override { close(); }

  boost::asio::any_io_executor executor() override { return in_->changed.executor(); }

  boost::asio::awaitable<std::pair<Error, size_t>> read(boost::asio::mutable_buffer into) override {
    const std::shared_ptr<Pipe> in = in_;
    while (in->bytes.empty() && !in->reading)
      co_await in->changed.wait();
    if (in->bytes.empty()) co_return std::pair{in->reading, size_t{0}};
    const size_t count = std::min(in->bytes.size(), into.size());
    std::copy_n(in->bytes.data(), count, static_cast<char*>(into.data()));
    in->bytes.erase(0, count);
    in->changed.notify();
    co_return std::pair{Error{}, count};
  }

  void write(std::vector<boost::asio::const_buffer> pieces, Written done) override {
    async::spawn(executor(), writeAll(out_, std::move(pieces), std::move(done)));
  }

  void close() override {
    if (std::exchange(closed_, true)) return;
    in_->bytes.clear();
    in_->reading = boost::asio::error::operation_aborted;
    in_->writing = boost::asio::error::broken_pipe;
    out_->reading = boost::asio::error::eof;
    out_->writing = boost::asio::error::operation_aborted;
    in_->changed.notify();
    out_->changed.notify();
  }

  [[nodiscard]] std::optional<Peer> peer() const override { return peer_; }

 private:
  static constexpr size_t kHolds = size_t{64} << 10;

  static boost::asio::awaitable<void> writeAll(std::shared_ptr<Pipe> out,
                                               std::vector<boost::asio::const_buffer> pieces,
                                               Written done) {
    co_await boost::asio::post(out->changed.executor(), boost::asio::use_awaitable);
    for (boost::asio::const_buffer piece : pieces) {
      while (piece.size() > 0 && !out->writing) {
        const size_t count = std::min(piece.size(), kHolds - out->bytes.size());
        out->bytes.append(static_cast<const char*>(piece.data()), count);
        piece += count;
        if (count > 0) out->changed.notify();
        if (piece.size() > 0 && !out->writing) co_await out->changed.wait();
      }
    }
    done(out->writing);
  }

  std::shared_ptr<Pipe> in_;
  std::shared_ptr<Pipe> out_;
  std::optional<Peer> peer_;
  bool closed_ = false;
};

}  // namespace cloister::net
