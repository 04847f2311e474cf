// SPDX-License-Identifier: Apache-2.0
// GuestWords: what a guest (guest.h) writes on its pipe, for as long as it lives: why it does not
// start, why it ends. Its VMM writes there, and the console of its kernel, which a program inside
// may have broken: it is text, shown and never obeyed, but for one thing. A guest that says it has
// stopped for good is ended, which who forges that does to his own sandbox alone.
//
// One thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/fd.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

class GuestWords {
 public:
  // As Guest::stalledAt.
  using StalledAt = std::function<size_t(std::string_view said)>;

  GuestWords(const boost::asio::any_io_executor& executor, Fd pipe, StalledAt stalled_at);

  // Reads until the guest's end, close() or a bound, after which nothing is read any more.
  // `on_stall` is called at most once.
  static Task<void> listen(std::shared_ptr<GuestWords> self, std::function<void()> on_stall);
  void close();

  // "; it said: ..." with the last of it, printable, from where it began to say that it has
  // stopped; "" if it said nothing. Also what is there and was not read yet.
  std::string told();
  // All that is kept of it.
  [[nodiscard]] const std::string& last() const { return last_; }

 private:
  bool take(std::string_view bytes);

  boost::asio::posix::stream_descriptor pipe_;
  StalledAt stalled_at_;
  std::string last_;
  size_t left_;
  bool stalled_ = false;
};

}  // namespace cloister::runtime
