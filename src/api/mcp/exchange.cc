// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/exchange.h"

#include <algorithm>
#include <utility>

namespace cloister::api::mcp {

void Exchange::say(const json::object& message) {
  if (ended_ || cancelled_ || events_.size() >= kMaxEvents) return;
  std::string text = base::toJson(message);
  if (text.size() > kMaxEventBytes) return;
  events_.push_back(std::move(text));
  ++said_;
  changed_.notify();
}

void Exchange::answer(const json::object& message, int status) {
  if (ended_) return;
  if (!cancelled_) {
    events_.push_back(base::toJson(message));
    status_ = status;
    if (streams() && readers_ == 0) shrink();
  }
  end();
}

void Exchange::end() {
  ended_ = true;
  on_cancel_.clear();
  changed_.notify();
}

void Exchange::cancel() {
  if (ended_ || cancelled_) return;
  cancelled_ = true;
  for (const auto& act : std::exchange(on_cancel_, {}))
    act();
  changed_.notify();
}

void Exchange::onCancel(std::function<void()> act) {
  if (cancelled_) return act();
  if (!ended_) on_cancel_.push_back(std::move(act));
}

std::optional<std::string> Exchange::at(uint64_t& position) const {
  position = std::max(position, first_);
  if (position >= endPosition()) return std::nullopt;
  return events_[static_cast<size_t>(position - first_)];
}

void Exchange::forget(uint64_t position) {
  while (first_ < position && !events_.empty()) {
    events_.pop_front();
    ++first_;
  }
}

void Exchange::leave(bool all) {
  if (--readers_ > 0) return;
  if (all && ended_) {
    forget(endPosition());
  } else {
    shrink();
  }
}

void Exchange::shrink() {
  if (stand_in_.empty() || events_.empty() || events_.back().size() <= kMaxEventBytes) return;
  events_.back() = stand_in_;
}

void Exchange::interrupt() {
  interrupted_ = true;
  changed_.notify();
}

boost::asio::awaitable<void> Exchange::wait(uint64_t position, Millis timeout) {
  const auto until = base::monotonicNow() + timeout;
  while (position >= endPosition() && !ended_ && !interrupted_ && base::monotonicNow() < until) {
    co_await changed_.wait(until);
  }
}

}  // namespace cloister::api::mcp
