// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/guest_words.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
constexpr size_t kMostConsole = 256 << 10;  // limit for a console that never stops writing
constexpr size_t kLast = 1'024;             // kept
constexpr size_t kMostTold = 512;

}  // namespace

GuestWords::GuestWords(const asio::any_io_executor& executor, Fd pipe, StalledAt stalled_at)
    : pipe_(executor, pipe.release()), stalled_at_(std::move(stalled_at)), left_(kMostConsole) {}

Task<void> GuestWords::listen(std::shared_ptr<GuestWords> self, std::function<void()> on_stall) {
  std::array<char, kLast> bytes;
  while (self->left_ > 0 && !self->stalled_) {
    const auto [error, n] = co_await self->pipe_.async_read_some(asio::buffer(bytes), kUse);
    if (error) break;
    if (self->take({bytes.data(), n})) on_stall();
  }
  if (!self->stalled_) self->close();
}

// Whether these bytes say that the guest has stopped.
bool GuestWords::take(std::string_view bytes) {
  left_ -= std::min(left_, bytes.size());
  last_.append(bytes);
  if (!stalled_) {
    const size_t at = stalled_at_(last_);
    stalled_ = at != std::string::npos;
    if (stalled_)
      last_.erase(0, at);
    else if (last_.size() > kLast)
      last_.erase(0, last_.size() - kLast);
    return stalled_;
  }
  if (last_.size() > kLast) last_.resize(kLast);
  return false;
}

void GuestWords::close() {
  boost::system::error_code ignored;
  pipe_.close(ignored);
}

std::string GuestWords::told() {
  std::array<char, kLast> bytes;
  while (pipe_.is_open() && left_ > 0) {
    const ssize_t n = ::read(pipe_.native_handle(), bytes.data(), bytes.size());
    if (n <= 0) break;
    take({bytes.data(), static_cast<size_t>(n)});
  }
  const size_t begin = stalled_ || last_.size() < kMostTold ? 0 : last_.size() - kMostTold;
  std::string text = last_.substr(begin, kMostTold);
  for (char& c : text) {
    if (c < ' ' || c > '~') c = ' ';
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text.empty() ? text : "; it said: " + text;
}

}  // namespace cloister::runtime
