// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/auto_pause.h"

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/log.h"

namespace cloister::api::compat::e2b {

namespace asio = boost::asio;

Task<void> AutoPause::begin(RestParts& parts, model::Principal who, std::string session,
                            Millis time) {
  std::erase_if(pending_, [&](const auto& each) { return !parts.sessions.ownerOf(each.first); });
  const auto executor = co_await asio::this_coro::executor;
  auto timer = std::make_shared<asio::steady_timer>(executor, time);
  const auto before = pending_.find(session);
  if (before != pending_.end()) before->second.timer->cancel();
  pending_[session] = {.timer = timer, .at = base::wallMicros() + time.count() * 1000};
  async::spawn(executor, pauseLater(*this, parts, std::move(who), std::move(session), timer));
}

std::optional<int64_t> AutoPause::endAt(const std::string& session) const {
  const auto found = pending_.find(session);
  if (found == pending_.end()) return std::nullopt;
  return found->second.at;
}

Task<void> AutoPause::pauseLater(AutoPause& of, RestParts& parts, model::Principal who,
                                 std::string session, std::shared_ptr<asio::steady_timer> timer) {
  const auto [error] = co_await timer->async_wait(asio::as_tuple(asio::use_awaitable));
  const auto found = of.pending_.find(session);
  if (error || found == of.pending_.end() || found->second.timer != timer) co_return;
  of.pending_.erase(found);
  const auto paused = co_await parts.sessions.pause(std::move(who), session);
  if (paused) co_return;
  base::log(base::Level::kWarn, "sandbox not paused at its timeout",
            {{"session", session}, {"error", paused.error().message}});
}

}  // namespace cloister::api::compat::e2b
