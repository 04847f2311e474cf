// SPDX-License-Identifier: Apache-2.0
// The audit rows of a run. Pure. Rows name actors, actions and digests, never contents.
#pragma once

#include <string>

#include "model/audit_entry.h"
#include "model/execution.h"
#include "model/limits.h"
#include "model/permit.h"
#include "model/plan.h"
#include "policy/decide.h"

namespace cloister::orchestrator {

// Facts of a run's acceptance.
struct RunFacts {
  std::string request_sha256;  // of the canonical request
  std::string spec_sha256;     // of the encoded ExecSpec, bound by the permit
  std::string rule;            // of the deciding policy, "" if none
  model::Limits limits;
  std::string prestart;  // see model::PermitFields
};

model::AuditEvent acceptedEvent(const model::Execution& execution, const RunFacts& facts);
model::AuditEvent deniedEvent(const model::Execution& execution, const RunFacts& facts);
// The run waits for approval, and continues after the approval.
model::AuditEvent blockedEvent(const model::Execution& execution, const RunFacts& facts);
model::AuditEvent resumedEvent(const model::Execution& execution, const std::string& escalation);
model::AuditEvent startedEvent(const model::Execution& execution, const model::NodeOffer& node);
model::AuditEvent finishedEvent(const model::Execution& execution);
// The agent lost a permission that its sandbox still grants; `ended`: the run was ended for this.
model::AuditEvent revokedEvent(const model::Execution& execution, bool ended);
// A request of `by`.
model::AuditEvent cancelEvent(const model::Execution& execution, const model::Principal& by);

}  // namespace cloister::orchestrator
