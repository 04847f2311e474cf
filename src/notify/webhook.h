// SPDX-License-Identifier: Apache-2.0
// The channel over which a webhook is told of escalations.
#pragma once

#include "base/result.h"
#include "model/config.h"
#include "orchestrator/governance/notifier.h"

namespace cloister::notify {

// POSTs {event, delivery, at, escalation} as signed_post.h has it.
Result<orchestrator::Channel> openWebhook(const model::EscalationSettings& config);

}  // namespace cloister::notify
