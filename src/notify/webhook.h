// SPDX-License-Identifier: Apache-2.0
// The webhook as a channel for escalations.
#pragma once

#include "base/result.h"
#include "model/config.h"
#include "orchestrator/governance/notifier.h"

namespace cloister::notify {

// POSTs {event, delivery, at, escalation} in the form of signed_post.h.
Result<orchestrator::Channel> openWebhook(const model::EscalationSettings& config);

}  // namespace cloister::notify
