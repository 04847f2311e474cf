// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "api/http/http_connection.h"

namespace cloister::api {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = boost::beast::websocket;

constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);
// Bounds of a message: without a taker only control frames are expected, with a taker whole
// messages.
constexpr size_t kMaxControl = 4096;
constexpr size_t kMaxMessage = 131'072;
// The time for a client to answer the farewell after its credential is lost.
constexpr Millis kFarewell{500};

class Conversation : public WebSocket, public std::enable_shared_from_this<Conversation> {
 public:
  using Input = std::function<Task<Result<>>(std::string)>;

  Conversation(Stream stream, const HttpLimits& limits, Input input)
      : stream_(std::move(stream)),
        timer_(stream_.get_executor()),
        stall_(limits.write_stall),
        input_(std::move(input)) {
    websocket::stream_base::timeout timeout{};
    timeout.handshake_timeout = limits.head_time;  // and of the closing handshake
    timeout.idle_timeout = websocket::stream_base::none();
    timeout.keep_alive_pings = false;  // heartbeats replace the pings
    stream_.set_option(timeout);
    stream_.read_message_max(input_ ? kMaxMessage : kMaxControl);
    stream_.auto_fragment(false);
  }

  Task<bool> accept(const Request& request) {
    beast::http::request<beast::http::empty_body> handshake;
    handshake.method_string(request.method);
    handshake.target(request.target);
    handshake.version(11);
    for (const Header& header : request.headers)
      handshake.insert(header.name, header.value);
    stream_.set_option(
        websocket::stream_base::decorator([id = request.id](websocket::response_type& response) {
          response.set("X-Request-Id", id);
        }));
    const auto [error] = co_await stream_.async_accept(handshake, kTuple);
    open_ = !error;
    co_return open_;
  }

  // Answers pings and the closing handshake; disconnects a client whose messages have no taker.
  Task<void> receive() {
    const auto self = shared_from_this();
    while (co_await receiveOne()) {
    }
    open_ = false;
  }

  Task<Result<>> send(std::string text) override {
    if (!open_) co_return fail(Code::kUnavailable, "sending: the client is gone");
    timer_.expires_after(stall_);
    timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto self = weak.lock();
      if (!error && self) self->abandon();
    });
    stream_.text(true);
    const auto [error, n] = co_await stream_.async_write(asio::buffer(text), kTuple);
    timer_.cancel();
    if (error) {
      open_ = false;
      co_return fail(Code::kUnavailable, "sending: the client is gone");
    }
    co_return Result<>();
  }

  Task<void> finish() {
    if (!open_) co_return;
    open_ = false;
    co_await stream_.async_close(websocket::close_code::normal, kTuple);
  }

  // The client's credential no longer stands.
  void end() {
    if (!std::exchange(open_, false)) return abandon();
    asio::co_spawn(stream_.get_executor(), farewell(), asio::detached);
  }

 private:
  Task<void> farewell() {
    const auto self = shared_from_this();
    asio::steady_timer patience(stream_.get_executor(), kFarewell);
    patience.async_wait([weak = weak_from_this()](boost::system::error_code error) {
      const auto waits = weak.lock();
      if (!error && waits) waits->abandon();
    });
    co_await stream_.async_close(
        {websocket::close_code::policy_error, "the credential is expired or revoked"}, kTuple);
    abandon();
  }

  Task<bool> receiveOne() {
    beast::flat_buffer buffer(input_ ? kMaxMessage : kMaxControl);
    const auto [error, n] = co_await stream_.async_read(buffer, kTuple);
    if (error || !open_) co_return false;
    bool taken = false;
    if (input_ && stream_.got_text()) {
      const auto result = co_await input_(beast::buffers_to_string(buffer.data()));
      taken =
          result || (result.error().code != Code::kInvalid && result.error().code != Code::kDenied);
    }
    if (taken || !open_) co_return taken;
    open_ = false;
    co_await stream_.async_close(websocket::close_code::policy_error, kTuple);
    co_return false;
  }

  void abandon() {
    open_ = false;
    boost::system::error_code ignored;
    stream_.next_layer().next_layer().close(ignored);
  }

  websocket::stream<Stream, false> stream_;
  asio::steady_timer timer_;
  Millis stall_;
  Input input_;
  bool open_ = false;
};

}  // namespace

Task<void> serveWebSocket(Stream stream, const Request& request, const HttpLimits& limits,
                          const Response& response, std::function<void()>& end) {
  auto conversation =
      std::make_shared<Conversation>(std::move(stream), limits, response.websocket_input);
  end = [weak = std::weak_ptr(conversation)] {
    if (const auto live = weak.lock()) live->end();
  };
  if (!co_await conversation->accept(request)) co_return;
  asio::co_spawn(
      co_await asio::this_coro::executor, [conversation] { return conversation->receive(); },
      asio::detached);
  co_await response.websocket(*conversation);
  co_await conversation->finish();
}

}  // namespace cloister::api
