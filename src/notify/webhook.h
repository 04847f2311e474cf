// SPDX-License-Identifier: Apache-2.0
// Channels over which people are told of escalations: a webhook and a mail relay. Both answers are
// hostile: bounded in time and size, and nothing in them leads anywhere else.
#pragma once

#include <memory>
#include <string>

#include "auth/fetch.h"
#include "base/result.h"
#include "model/config.h"
#include "orchestrator/notifier.h"

namespace cloister::notify {

// POSTs {event, delivery, at, escalation} as JSON, with the headers
//   X-Cloister-Delivery: a number, the same when a delivery is tried again
//   X-Cloister-Timestamp: seconds since the Unix epoch, when it was sent
//   X-Cloister-Signature: v1=hex(HMAC-SHA256(secret, timestamp + "." + body))
// No redirect is followed. Reads the secret and the authorities now; kInvalid names the key.
Result<orchestrator::Channel> openWebhook(const model::Config::Escalation& config);

// The value of X-Cloister-Signature.
std::string signatureOf(std::string_view secret, int64_t timestamp, std::string_view body);

}  // namespace cloister::notify
