// SPDX-License-Identifier: Apache-2.0
// Who is told of what, and how: people of escalations, other places of the audit log's head.
#pragma once

#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "api/metrics.h"
#include "model/config.h"
#include "notify/checkpoints.h"
#include "orchestrator/governance/escalations.h"
#include "orchestrator/governance/notifier.h"

namespace cloister {

struct Channels {
  std::vector<orchestrator::Channel> people;
  orchestrator::NotifierConfig delivery;
  std::vector<notify::CheckpointPlace> checkpoints;
  Millis checkpoint_interval;
};
// Those that are configured. What they need is read now, while we still may.
Result<Channels> openChannels(const model::Config& config);

// What tells them, and the escalations themselves; all that it is given outlives it.
struct Telling {
  Telling(const boost::asio::any_io_executor& executor, store::Store& store,
          orchestrator::RunService& runs, boost::asio::thread_pool& background,
          const Channels& channels, api::ServiceMetrics& metrics);

  notify::CheckpointPublisher publisher;
  orchestrator::Notifier notifier;
  orchestrator::EscalationService service;
  std::vector<std::string> shown;  // where people are told
};

}  // namespace cloister
