// SPDX-License-Identifier: Apache-2.0
// The audit rows of a run. Pure. Each says who, what and with which digests, never the contents.
#pragma once

#include <string>

#include "model/audit_entry.h"
#include "model/execution.h"
#include "model/limits.h"
#include "model/permit.h"
#include "model/plan.h"
#include "policy/decide.h"

namespace cloister::orchestrator {

// What a run was accepted with.
struct RunFacts {
  std::string request_sha256;  // of the canonical request
  std::string spec_sha256;     // of the encoded ExecSpec: what the permit binds
  std::string rule;            // of the policy that decided, "" if none
  model::Limits limits;
  std::string prestart;  // see model::PermitFields
};

model::AuditEvent acceptedEvent(const model::Execution& execution, const RunFacts& facts);
model::AuditEvent deniedEvent(const model::Execution& execution, const RunFacts& facts);
// It waits for approval, and goes on with it.
model::AuditEvent blockedEvent(const model::Execution& execution, const RunFacts& facts);
model::AuditEvent resumedEvent(const model::Execution& execution, const std::string& escalation);
model::AuditEvent startedEvent(const model::Execution& execution, const model::NodeOffer& node);
model::AuditEvent finishedEvent(const model::Execution& execution);
// Its agent may no longer do what its sandbox lets it do; `ended`: so it was ended.
model::AuditEvent revokedEvent(const model::Execution& execution, bool ended);
// `by` asked for it.
model::AuditEvent cancelEvent(const model::Execution& execution, const model::Principal& by);

}  // namespace cloister::orchestrator
