// SPDX-License-Identifier: Apache-2.0
// Exchange: a request under way, between its handler and the readers of its answer. Messages before
// the answer (progress, questions to the client) are queued with the answer; readers pull by
// position, so a reader that lost its connection can continue. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "api/mcp/message.h"
#include "async/signal.h"
#include "base/clock.h"

namespace cloister::api::mcp {

class Exchange {
 public:
  static constexpr size_t kMaxEvents = 512;           // kept; later notifications are dropped
  static constexpr size_t kMaxEventBytes = 64 << 10;  // of a notification

  explicit Exchange(boost::asio::any_io_executor executor) : changed_(std::move(executor)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() = default;

  // Queues a message before the answer. After the answer or a cancellation, messages are dropped.
  void say(const json::object& message);
  // Queues the answer; `status` is HTTP's, used when the answer goes alone.
  void answer(const json::object& message, int status);
  // Ends the exchange without an answer.
  void end();

  // The client wants no answer any more: the handler is notified, once.
  void cancel();
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  // cancel() calls `act`; after an earlier cancel() the call is immediate.
  void onCancel(std::function<void()> act);

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] int status() const { return status_; }
  // True once more than the answer has to be told.
  [[nodiscard]] bool streams() const { return said_ > 0; }
  [[nodiscard]] uint64_t endPosition() const { return first_ + events_.size(); }
  // The event at `position`, nothing beyond the last; dropped events are skipped.
  [[nodiscard]] std::optional<std::string> at(uint64_t& position) const;
  // The replacement of an answer over kMaxEventBytes without a reader: memory is not kept for
  // clients that may come back. "": the answer stays.
  void setStandIn(std::string message) { stand_in_ = std::move(message); }
  void begin() { ++readers_; }
  // A reader is done; `all`: the reader received everything.
  void leave(bool all);

  // Drops the events before `position`.
  void forget(uint64_t position);
  // Asks the reading connection to close, so that the client comes back.
  void interrupt();
  [[nodiscard]] bool takeInterrupt() { return std::exchange(interrupted_, false); }

  // Until there is an event at `position`, the end, an interruption, or so long.
  boost::asio::awaitable<void> wait(uint64_t position, Millis timeout);
  // Until something changes: an answer from the client, a cancellation.
  boost::asio::awaitable<void> changed(base::Monotonic until) { return changed_.wait(until); }
  void wake() { changed_.notify(); }

 private:
  void shrink();

  std::deque<std::string> events_;
  uint64_t first_ = 0;  // position of events_.front()
  uint64_t said_ = 0;
  size_t readers_ = 0;
  std::string stand_in_;
  int status_ = 200;
  bool ended_ = false;
  bool cancelled_ = false;
  bool interrupted_ = false;
  std::vector<std::function<void()>> on_cancel_;
  async::Signal changed_;
};

using ExchangePtr = std::shared_ptr<Exchange>;

}  // namespace cloister::api::mcp
