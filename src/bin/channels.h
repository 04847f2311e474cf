// SPDX-License-Identifier: Apache-2.0
// Escalations as cloisterd has them: the service, who is told, and how.
#pragma once

#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "model/config.h"
#include "orchestrator/escalations.h"
#include "orchestrator/notifier.h"

namespace cloister {

// The channels that are configured. What they need is read now, while we still may.
Result<std::vector<orchestrator::Channel>> openChannels(const model::Config::Escalation& config);

// The parts that belong together; all that it is given outlives it.
struct Escalating {
  Escalating(boost::asio::any_io_executor executor, store::Store& store,
             orchestrator::RunService& runs, const std::vector<orchestrator::Channel>& channels,
             const model::Config::Escalation& config);

  orchestrator::Notifier notifier;
  orchestrator::EscalationService service;
  std::vector<std::string> shown;  // where people are told
};

}  // namespace cloister
