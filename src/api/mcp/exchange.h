// SPDX-License-Identifier: Apache-2.0
// Exchange: one request under way, between what answers it and whoever reads the answer. What is
// said before the answer (progress, questions to the client) is queued with it; readers pull by
// position, so one that lost its connection can go on where it was. One thread.
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
  static constexpr size_t kMaxEvents = 512;           // kept; a notification beyond them is dropped
  static constexpr size_t kMaxEventBytes = 64 << 10;  // of a notification

  explicit Exchange(boost::asio::any_io_executor executor) : changed_(std::move(executor)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() = default;

  // Something before the answer. Nothing is said after the answer, or once it is cancelled.
  void say(const json::object& message);
  // The answer; `status` is HTTP's, where it goes alone.
  void answer(const json::object& message, int status);
  // Ends it without an answer.
  void end();

  // The client wants no answer any more: what works on it is told, once.
  void cancel();
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  // Called by cancel(), or now if that was before. Until clearCancel().
  void onCancel(std::function<void()> act);
  void clearCancel() { on_cancel_.clear(); }

  [[nodiscard]] bool ended() const { return ended_; }
  [[nodiscard]] int status() const { return status_; }
  // True once more than the answer has to be told.
  [[nodiscard]] bool streams() const { return said_ > 0; }
  [[nodiscard]] uint64_t endPosition() const { return first_ + events_.size(); }
  // The event at `position`, nothing beyond the last; what was dropped is stepped over.
  [[nodiscard]] std::optional<std::string> at(uint64_t& position) const;
  // What an answer over kMaxEventBytes becomes when nobody is there to read it: memory is not kept
  // for clients that may come back. "": it stays.
  void setStandIn(std::string message) { stand_in_ = std::move(message); }
  void begin() { ++readers_; }
  // A reader is done; `all`: it was told everything.
  void leave(bool all);

  // Lets go of what is before `position`.
  void forget(uint64_t position);
  // The connection that reads is asked to close, for the client to come back.
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
