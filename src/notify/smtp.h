// SPDX-License-Identifier: Apache-2.0
// Mail through a configured relay: SMTP (RFC 5321), with STARTTLS (RFC 3207) unless switched off;
// with AUTH (RFC 4954) if a user is configured, over TLS only. Text from requests is in the body
// only as base64, and in headers only as printable ASCII, so no text can become a header, an
// address or a command.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "model/config.h"
#include "orchestrator/governance/notifier.h"

namespace cloister::notify {

// Checks the addresses and reads the authorities now; kInvalid names the key.
Result<orchestrator::Channel> openSmtp(const model::EscalationSettings& config);

// The message on the wire, lines ended by CR LF, without the final dot.
std::string mailText(const std::string& from, const std::vector<std::string>& to,
                     const orchestrator::Message& told);

// Local part and domain of printable ASCII without spaces, quotes, brackets or commas.
bool isMailAddress(std::string_view text);

}  // namespace cloister::notify
