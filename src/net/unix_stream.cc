// SPDX-License-Identifier: Apache-2.0
#include "net/unix_stream.h"

#include <sys/socket.h>

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace cloister::net {
namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr size_t kMaxSocketPath = 107;  // sun_path, unix(7)

std::optional<ByteStream::Peer> peerOf(int socket) {
  ucred record{};
  socklen_t size = sizeof record;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &record, &size) != 0) return std::nullopt;
  return ByteStream::Peer{.pid = record.pid, .uid = record.uid};
}

class UnixStream final : public ByteStream {
 public:
  explicit UnixStream(stream_protocol::socket socket)
      : socket_(std::move(socket)), peer_(peerOf(socket_.native_handle())) {}

  asio::any_io_executor executor() override { return socket_.get_executor(); }

  asio::awaitable<std::pair<Error, size_t>> read(asio::mutable_buffer into) override {
    const auto [error, count] = co_await socket_.async_read_some(into, kQuietly);
    co_return std::pair{error, count};
  }

  void write(std::vector<asio::const_buffer> pieces, Written done) override {
    asio::async_write(socket_, std::move(pieces),
                      [done = std::move(done)](Error error, size_t) { done(error); });
  }

  void close() override {
    Error ignored;
    socket_.close(ignored);
  }

  std::optional<Peer> peer() const override { return peer_; }

 private:
  stream_protocol::socket socket_;
  std::optional<Peer> peer_;
};

}  // namespace

std::unique_ptr<ByteStream> unixStream(stream_protocol::socket socket) {
  return std::make_unique<UnixStream>(std::move(socket));
}

asio::awaitable<Result<std::unique_ptr<ByteStream>>> connectUnix(std::string path) {
  const std::string doing = "connecting to " + path;
  if (path.size() > kMaxSocketPath)
    co_return fail(Code::kInvalid, doing + ": the path is too long");
  stream_protocol::socket socket(co_await asio::this_coro::executor);
  const auto [error] = co_await socket.async_connect(stream_protocol::endpoint(path), kQuietly);
  if (error) co_return fail(Code::kUnavailable, doing + ": " + error.message());
  co_return unixStream(std::move(socket));
}

}  // namespace cloister::net
