// SPDX-License-Identifier: Apache-2.0
// StopWatch: the reasons for `cloisterd` to end. On the executor of its context (one thread).
#pragma once

#include <csignal>
#include <functional>
#include <string_view>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>

namespace cloister {

// Tells `stop` of SIGTERM, SIGINT, and the end of the supervisor.
class StopWatch {
 public:
  StopWatch(boost::asio::io_context& io, int lifeline, std::function<void(std::string_view)> stop)
      : signals_(io, SIGTERM, SIGINT), pipe_(io), stop_(std::move(stop)) {
    waitSignal();
    if (lifeline < 0) return;
    pipe_.assign(lifeline);
    pipe_.async_read_some(boost::asio::buffer(byte_),
                          [this](boost::system::error_code error, size_t) {
                            if (error != boost::asio::error::operation_aborted)
                              stop_("the supervisor is gone");
                          });
  }

 private:
  void waitSignal() {
    signals_.async_wait([this](boost::system::error_code error, int) {
      if (error) return;
      stop_("signal");
      waitSignal();
    });
  }

  boost::asio::signal_set signals_;
  boost::asio::posix::stream_descriptor pipe_;
  std::function<void(std::string_view)> stop_;
  char byte_[1] = {};
};

}  // namespace cloister
