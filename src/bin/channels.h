// SPDX-License-Identifier: Apache-2.0
// The recipients of notifications and the channels: people for escalations, and other places for
// the audit log's head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/metrics.h"
#include "model/config.h"
#include "notify/checkpoints.h"
#include "orchestrator/egress/doors.h"
#include "orchestrator/governance/escalations.h"
#include "orchestrator/governance/network_asks.h"
#include "orchestrator/governance/notifier.h"
#include "orchestrator/runs/run_service.h"

namespace cloister {

struct Channels {
  std::vector<orchestrator::Channel> people;
  orchestrator::NotifierConfig delivery;
  std::vector<notify::CheckpointPlace> checkpoints;
  Millis checkpoint_interval;
};
// The file for the published heads of the audit log; "" for none.
std::string publishedFile(const model::Config& config);
// Opens the configured channels. Reads their files now, while still permitted.
Result<Channels> openChannels(const model::Config& config);

// The notifiers and the escalation service. All arguments must outlive the object.
struct Telling {
  Telling(std::shared_ptr<orchestrator::Control> control, const orchestrator::RunService& runs,
          const orchestrator::AgentGuard* agents, const Channels& channels,
          api::ServiceMetrics& metrics, orchestrator::Doors& doors);

  notify::CheckpointPublisher publisher;
  orchestrator::Notifier notifier;
  orchestrator::EscalationService service;
  std::shared_ptr<orchestrator::NetworkAsks> network;  // refused destinations
  std::vector<std::string> shown;                      // descriptions of the notification channels
};

}  // namespace cloister
