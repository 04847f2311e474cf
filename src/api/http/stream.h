// SPDX-License-Identifier: Apache-2.0
// Stream: a client's socket, plain or with TLS around the socket, as an AsyncStream for the layers
// above (asio reads and writes, Beast's WebSocket). Movable; not thread-safe. One read and one
// write may wait at once.
#pragma once

#include <array>
#include <memory>
#include <utility>

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/beast/core/role.hpp>
#include <boost/beast/websocket/teardown.hpp>

namespace cloister::api {

// TCP and Unix alike.
using Socket = boost::asio::generic::stream_protocol::socket;

class Stream {
 public:
  using executor_type = Socket::executor_type;
  using next_layer_type = Socket;

  explicit Stream(Socket socket) : socket_(std::make_unique<Socket>(std::move(socket))) {}

  // Speaks TLS from now on; the handshake is next. The context lives as long as the stream.
  void secure(std::shared_ptr<boost::asio::ssl::context> context) {
    context_ = std::move(context);
    tls_ = std::make_unique<Tls>(*socket_, *context_);
  }
  [[nodiscard]] bool secured() const { return tls_ != nullptr; }

  executor_type get_executor() { return socket_->get_executor(); }
  Socket& next_layer() { return *socket_; }
  [[nodiscard]] const Socket& next_layer() const { return *socket_; }
  // Only for a secured stream.
  boost::asio::ssl::stream<Socket&>& tls() { return *tls_; }

  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, Transferred>(
        [this](auto handler, boost::asio::mutable_buffer into) { read(into, std::move(handler)); },
        token, firstOf(buffers));
  }

  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    return boost::asio::async_initiate<Token, Transferred>(
        [this](auto handler, const Gathered& from) { write(from, std::move(handler)); }, token,
        gather(buffers));
  }

 private:
  using Tls = boost::asio::ssl::stream<Socket&>;
  using Transferred = void(boost::system::error_code, size_t);
  // Type-erased: each operation of sockets and TLS is compiled once, not for each caller.
  using Handler = boost::asio::any_completion_handler<Transferred>;
  using Gathered = std::array<boost::asio::const_buffer, 4>;  // more are left for the next write

  void read(boost::asio::mutable_buffer into, Handler handler);
  void write(const Gathered& from, Handler handler);

  // The first nonempty buffer.
  template <class Buffers>
  static boost::asio::mutable_buffer firstOf(const Buffers& buffers) {
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto at = boost::asio::buffer_sequence_begin(buffers); at != end; ++at) {
      const boost::asio::mutable_buffer buffer(*at);
      if (buffer.size() > 0) return buffer;
    }
    return {};
  }

  template <class Buffers>
  static Gathered gather(const Buffers& buffers) {
    Gathered gathered;
    size_t count = 0;
    const auto end = boost::asio::buffer_sequence_end(buffers);
    for (auto at = boost::asio::buffer_sequence_begin(buffers);
         at != end && count < gathered.size(); ++at) {
      const boost::asio::const_buffer buffer(*at);
      if (buffer.size() > 0) gathered[count++] = buffer;
    }
    return gathered;
  }

  std::unique_ptr<Socket> socket_;  // on the heap: TLS keeps a reference
  std::shared_ptr<boost::asio::ssl::context> context_;
  std::unique_ptr<Tls> tls_;
};

// Beast's WebSocket calls the function, by argument-dependent lookup, after the closing handshake.
// WebSocket itself proves a complete message, so TLS need not.
template <class Handler>
void async_teardown(boost::beast::role_type role, Stream& stream, Handler&& handler) {
  boost::beast::websocket::async_teardown(role, stream.next_layer(),
                                          std::forward<Handler>(handler));
}

}  // namespace cloister::api
