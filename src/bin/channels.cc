// SPDX-License-Identifier: Apache-2.0
#include "bin/channels.h"

#include "bin/settings.h"
#include "notify/smtp.h"
#include "notify/webhook.h"
#include "policy/approval.h"

namespace cloister {

// With the anchor on a separate disk, the published heads go there, too.
std::string publishedFile(const model::Config& config) {
  const model::Config::Audit& audit = config.audit;
  if (!audit.publish.file.empty() || audit.anchor_file.empty()) return audit.publish.file;
  return audit.anchor_file + ".published";
}

Result<Channels> openChannels(const model::Config& config) {
  const model::EscalationSettings& escalation = config.escalation;
  Channels channels{
      .people = {},
      .delivery = notifierConfig(escalation),
      .checkpoints = {},
      .checkpoint_interval = std::chrono::seconds(config.audit.publish.every_seconds)};
  if (!escalation.webhook.url.empty()) {
    channels.people.push_back(TRY(notify::openWebhook(escalation)));
  }
  if (!escalation.smtp.relay.empty()) channels.people.push_back(TRY(notify::openSmtp(escalation)));
  for (const std::string& name : escalation.roles) {
    const auto role = model::roleFromName(name);
    const std::string why = role ? policy::neverDecides(*role) : "there is no role " + name;
    if (why.empty()) continue;
    return fail(Code::kInvalid, "escalation.roles: " + why, "escalation.roles");
  }
  if (escalation.roles.empty()) {
    return fail(Code::kInvalid, "escalation.roles: must name a role", "escalation.roles");
  }
  model::Config::Audit::Publish publish = config.audit.publish;
  // Of another path the directory that the service happens to run in would decide.
  if (!publish.file.empty() && !publish.file.starts_with('/')) {
    return fail(Code::kInvalid, "audit.publish.file: must be an absolute path",
                "audit.publish.file");
  }
  publish.file = publishedFile(config);
  channels.checkpoints = TRY(notify::openCheckpointPlaces(publish));
  return channels;
}

Telling::Telling(std::shared_ptr<orchestrator::Control> control,
                 const orchestrator::RunService& runs, const orchestrator::AgentGuard* agents,
                 const Channels& channels, api::ServiceMetrics& metrics, orchestrator::Doors& doors)
    : publisher(control->executor, control->store, control->background, channels.checkpoints,
                channels.checkpoint_interval,
                [&metrics](const std::string& place, std::optional<uint64_t> entry) {
                  metrics.checkpointPublished(place, entry);
                }),
      notifier(control->executor, control->store, channels.people, channels.delivery),
      service(control, runs.approvals(), agents),
      network(std::make_shared<orchestrator::NetworkAsks>(control, runs.approvals(), agents)) {
  doors.ask(network);
  service.onNews([this] { notifier.wake(); });
  for (const orchestrator::Channel& each : channels.people)
    shown.push_back(each.shown);
}

}  // namespace cloister
