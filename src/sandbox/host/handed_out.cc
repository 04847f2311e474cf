// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/handed_out.h"

#include <signal.h>

#include <string>
#include <tuple>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "confine/spawn_loop.h"
#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {

namespace asio = boost::asio;

Task<Result<HandedOut>> answerFrom(asio::any_io_executor executor, Fd answer, Fd process,
                                   std::chrono::milliseconds patience) {
  const int pidfd = process.get();
  asio::steady_timer late(executor, patience);
  late.async_wait([pidfd](const boost::system::error_code& error) {
    if (!error) std::ignore = linux::signalPidfd(pidfd, SIGKILL);
  });
  asio::posix::stream_descriptor socket(executor, answer.release());
  const auto [error] = co_await socket.async_wait(asio::posix::descriptor_base::wait_read,
                                                  asio::as_tuple(asio::use_awaitable));
  late.cancel();
  if (error) co_return fail(Code::kInternal, error.message());
  char text[kMaxAnswer];
  auto message = CO_TRY(linux::receiveMessage(socket.native_handle(), text));
  co_return HandedOut{.said = std::string(text, message.size), .fds = std::move(message.fds)};
}

Task<Result<std::vector<Fd>>> handedOut(asio::any_io_executor executor, Fd answer, Fd process,
                                        size_t count, std::chrono::milliseconds patience) {
  HandedOut got = CO_TRY(
      co_await answerFrom(std::move(executor), std::move(answer), std::move(process), patience));
  if (got.said.empty()) co_return fail(Code::kInternal, "it took too long, or its memory");
  if (got.said != kDone) co_return fail(Code::kInternal, got.said);
  if (got.fds.size() != count) co_return fail(Code::kInternal, "what it gave is not whole");
  co_return std::move(got.fds);
}

}  // namespace cloister::runtime
