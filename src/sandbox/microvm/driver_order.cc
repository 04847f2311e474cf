// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/driver_order.h"

#include <memory>
#include <string>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "model/escalation.h"
#include "sandbox/box/runner_channel.h"
#include "wire/driver.h"

namespace cloister::runtime::microvm {
namespace {

std::unexpected<Error> failed(std::string_view what) {
  return fail(Code::kInternal, "keeping a machine: " + model::safeText(what, kMostSaid));
}

}  // namespace

Task<Result<>> orderToKeep(boost::asio::any_io_executor executor, Fd socket, Millis patience) {
  const auto channel = std::make_shared<RunnerChannel>(executor, std::move(socket));
  boost::asio::steady_timer late(executor, patience);
  late.async_wait([channel](const boost::system::error_code& error) {
    if (!error) channel->close();
  });
  std::string order;
  addFrame(order, static_cast<wire::ToRunner>(wire::driver::ToDriver::kKeep), 0, "");
  if (!co_await channel->write(order)) co_return failed("its driver takes no order");
  const auto answer = co_await channel->read();
  if (!answer) co_return failed("its driver does not answer: " + answer.error().message);
  const auto type = static_cast<wire::driver::FromDriver>(answer->type);
  if (type == wire::driver::FromDriver::kNotKept) co_return failed(answer->payload);
  if (type != wire::driver::FromDriver::kKept || !answer->payload.empty()) {
    co_return failed("its driver answered something else");
  }
  co_return Result<>();
}

}  // namespace cloister::runtime::microvm
