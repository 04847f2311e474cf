// SPDX-License-Identifier: Apache-2.0
// GuestWords: the lines that a guest (guest.h) writes on its pipe during its life, such as the
// reason for a failed start or for the end. The VMM writes there, and the console of the guest's
// kernel, and a program inside may have broken either. So the text is shown and not acted upon,
// with one exception: the node ends a guest that reports a final stop. A program that forges this
// report ends its own sandbox alone.
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

  // Reads until the guest's end, close() or a bound; then stops for good. `on_stall` is called at
  // most once.
  static Task<void> listen(std::shared_ptr<GuestWords> self, std::function<void()> on_stall);
  void close();

  // "; it said: ..." with the last output in printable form, from the first line about the stop, if
  // any; "" without output. Includes output not yet read from the pipe.
  std::string told();
  // All output kept.
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
