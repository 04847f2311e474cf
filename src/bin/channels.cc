// SPDX-License-Identifier: Apache-2.0
#include "bin/channels.h"

#include "bin/settings.h"
#include "notify/smtp.h"
#include "notify/webhook.h"

namespace cloister {

Result<std::vector<orchestrator::Channel>> openChannels(const model::Config::Escalation& config) {
  std::vector<orchestrator::Channel> channels;
  if (!config.webhook.url.empty()) channels.push_back(TRY(notify::openWebhook(config)));
  if (!config.smtp.relay.empty()) channels.push_back(TRY(notify::openSmtp(config)));
  for (const std::string& role : config.roles) {
    if (!model::roleFromName(role)) {
      return fail(Code::kInvalid, "escalation.roles: there is no role " + role, "escalation.roles");
    }
  }
  if (config.roles.empty()) {
    return fail(Code::kInvalid, "escalation.roles: must name a role", "escalation.roles");
  }
  return channels;
}

Escalating::Escalating(boost::asio::any_io_executor executor, store::Store& store,
                       orchestrator::RunService& runs,
                       const std::vector<orchestrator::Channel>& channels,
                       const model::Config::Escalation& config)
    : notifier(executor, store, channels, notifierConfig(config)), service(runs) {
  service.onNews([this] { notifier.wake(); });
  for (const orchestrator::Channel& each : channels)
    shown.push_back(each.shown);
}

}  // namespace cloister
