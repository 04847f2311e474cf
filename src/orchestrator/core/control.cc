// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/control.h"

#include <algorithm>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/log.h"

namespace cloister::orchestrator {
namespace {

constexpr Millis kFirstRetry{50};
constexpr Millis kLongestRetry{5'000};

Task<void> pauseFor(boost::asio::any_io_executor executor, Millis time) {
  boost::asio::steady_timer timer(executor, time);
  co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
}

// True for errors that may end: a full disk, or a full queue of the ledger.
bool maySucceedLater(const Error& error) {
  return error.code == Code::kNoSpace || error.code == Code::kQuota ||
         error.code == Code::kUnavailable || error.code == Code::kInternal;
}

}  // namespace

Control::Control(boost::asio::any_io_executor on, ControlParts parts, ControlConfig how)
    : executor(on),
      background(parts.background),
      store(parts.store),
      languages(parts.languages),
      engine(parts.policy),
      metrics(parts.metrics),
      levels(parts.levels),
      quotas(parts.quotas),
      network(parts.network),
      tracer(parts.tracer),
      config(how),
      ledger(parts.store),
      places({.runs = how.concurrent,
              .memory_share = how.memory_share,
              .disk = how.disk_bytes,
              .disk_over = how.disk_over_bytes,
              .fairness = how.fairness}),
      nodes(places),
      permits(parts.policy, parts.permit_key, nodes.current(), how.permit_life, how.internal,
              how.packages),
      changed(on) {}

Task<Result<>> Control::insist(std::string id, std::function<Task<Result<>>()> write) {
  const auto self = shared_from_this();
  auto written = co_await write();
  if (written || !maySucceedLater(written.error())) co_return written;
  base::log(base::Level::kError, "ledger refuses a record",
            {{"record", id}, {"reason", written.error().message}});
  unrecorded_++;
  Millis pause = kFirstRetry;
  while (!written && maySucceedLater(written.error()) && !stopped_ &&
         base::monotonicNow() < give_up_) {
    co_await pauseFor(executor, pause);
    pause = std::min(pause * 2, kLongestRetry);
    written = co_await write();
  }
  unrecorded_--;
  co_return written;
}

Result<> Control::orInsist(Result<> written, std::string id,
                           std::function<Task<Result<>>()> write) {
  if (written || !maySucceedLater(written.error())) return written;
  const auto go_on = [](std::shared_ptr<Control> self, std::string of,
                        std::function<Task<Result<>>()> again) -> Task<void> {
    std::ignore = co_await self->insist(std::move(of), std::move(again));
  };
  async::spawn(executor, go_on(shared_from_this(), std::move(id), std::move(write)));
  return {};
}

}  // namespace cloister::orchestrator
