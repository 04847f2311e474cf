// SPDX-License-Identifier: Apache-2.0
// An escalation and an agent's escalation policy as text in the ledger, and back.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "model/escalation.h"

namespace cloister::store {

std::string encodeEscalation(const model::Escalation& escalation);
Result<model::Escalation> decodeEscalation(std::string_view text);
std::string encodeEscalationPolicy(const model::EscalationPolicy& policy);
Result<model::EscalationPolicy> decodeEscalationPolicy(std::string_view text);

}  // namespace cloister::store
