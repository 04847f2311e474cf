// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/h2_relay.h"

#include <memory>
#include <string>
#include <utility>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>

#include "async/signal.h"
#include "egress/relay/h2_streams.h"
#include "egress/relay/incoming.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
constexpr size_t kPiece = size_t{16} << 10;

// Two readers and two writers. Every one of them ends after end().
class H2Relay {
 public:
  explicit H2Relay(Connection& connection)
      : connection_(connection), wake_(connection.inside().get_executor()) {}
  H2Relay(const H2Relay&) = delete;
  H2Relay& operator=(const H2Relay&) = delete;
  ~H2Relay() {
    if (streams_) streams_->end();
  }

  Task<void> run() {
    using asio::experimental::awaitable_operators::operator&&;
    using asio::experimental::awaitable_operators::operator||;
    // A decision may come after the end of this relay.
    auto made = H2Streams::make(connection_.shared_from_this(),
                                [this, streams = std::weak_ptr<bool>(alive_)] {
                                  if (!streams.expired()) wake_.notify();
                                });
    if (!made) co_return connection_.reset();
    streams_ = *std::move(made);
    connection_.expireIn(connection_.limits().idle);
    co_await ((read(true) && read(false) && write(true) && write(false)) || watchPlan());
    if (connection_.over()) co_return;
    Incoming rest(connection_);
    co_await rest.linger();
  }

 private:
  h2::Session& session(bool inside) { return inside ? streams_->inside() : streams_->outside(); }
  Connection::Socket& socket(bool inside) {
    return inside ? connection_.inside() : connection_.outside();
  }

  Task<void> read(bool inside) {
    while (!done_ && !closing_ && (inside || !origin_lost_)) {
      if (session(inside).congested()) {
        co_await wake_.wait();
        continue;
      }
      std::string bytes;
      const auto [error, count] = co_await connection_.read(socket(inside), bytes, kPiece);
      if (done_) co_return;
      if (error || count == 0) co_return inside ? end() : loseOrigin();
      if (!connection_.moved(0, 0)) co_return end();
      const auto fed = session(inside).feed(bytes);
      wake_.notify();
      if (connection_.over()) co_return end();
      if (!fed && inside) co_return refuseClient(fed.error().message);
      if (!fed || (!inside && session(false).ended())) co_return loseOrigin();
    }
  }

  Task<void> write(bool inside) {
    while (!done_ && (inside || !origin_lost_)) {
      const std::string bytes = session(inside).take(kPiece);
      if (inside && session(true).broken()) refuseClient("the frames break the protocol");
      if (bytes.empty() && inside && (closing_ || session(true).ended())) co_return end();
      if (bytes.empty() && !inside && session(false).ended()) co_return loseOrigin();
      if (bytes.empty()) {
        co_await wake_.wait();
        continue;
      }
      wake_.notify();  // the other side has bytes to acknowledge, perhaps
      if (co_await connection_.write(socket(inside), bytes)) {
        if (inside) co_return end();
        co_return loseOrigin();
      }
    }
  }

  // Ends by cancellation alone.
  Task<void> watchPlan() {
    co_await asio::this_coro::throw_if_cancelled(false);
    const auto cancellation = co_await asio::this_coro::cancellation_state;
    while (cancellation.cancelled() == asio::cancellation_type::none) {
      co_await connection_.changed().wait();
      if (cancellation.cancelled() != asio::cancellation_type::none || done_) continue;
      streams_->judgeAgain();
      wake_.notify();
    }
  }

  // Complete answers are still written.
  void loseOrigin() {
    if (done_ || std::exchange(origin_lost_, true)) return;
    streams_->loseOrigin();
    wake_.notify();
  }

  void refuseClient(const std::string& why) {
    if (std::exchange(closing_, true)) return;  // after the farewell
    connection_.refuse(
        {.host = connection_.name(), .port = connection_.port(), .protocol = model::Protocol::kTls},
        "The client ended its HTTP/2 badly: " + why + ".",
        "Speak HTTP/2 as RFC 9113 has it, with fewer control frames.");
    connection_.expireIn(connection_.limits().linger);
    wake_.notify();
  }

  void end() {
    if (std::exchange(done_, true)) return;
    Connection::Error ignored;
    connection_.inside().cancel(ignored);
    connection_.outside().cancel(ignored);
    wake_.notify();
  }

  Connection& connection_;
  async::Signal wake_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::shared_ptr<H2Streams> streams_;
  bool closing_ = false;
  bool origin_lost_ = false;
  bool done_ = false;
};

}  // namespace

Task<void> relayHttp2(Connection& connection) {
  H2Relay relay(connection);
  co_await relay.run();
}

}  // namespace cloister::egress
