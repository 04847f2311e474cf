// SPDX-License-Identifier: Apache-2.0
#include "notify/webhook.h"

#include "net/signed_post.h"

namespace cloister::notify {
namespace {

boost::asio::awaitable<Result<>> send(std::shared_ptr<net::SignedPost> hook,
                                      orchestrator::Message told) {
  base::json::object body = {{"event", told.event},
                             {"delivery", told.number},
                             {"at", base::formatTime(told.at)},
                             {"escalation", orchestrator::toldOf(told.escalation)}};
  co_return co_await hook->send(told.number, std::move(body));
}

}  // namespace

Result<orchestrator::Channel> openWebhook(const model::EscalationSettings& config) {
  const auto hook = TRY(net::SignedPost::open("escalation.webhook", config.webhook.url,
                                              config.webhook.secret_file, config.webhook.ca_file,
                                              Millis(config.notification_timeout_ms)));
  return orchestrator::Channel{
      .name = "webhook", .shown = hook->host(), .send = [hook](orchestrator::Message told) {
        return send(hook, std::move(told));
      }};
}

}  // namespace cloister::notify
