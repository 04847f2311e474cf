// SPDX-License-Identifier: Apache-2.0
// What a session's record and the audit log say of its steps. Pure.
#pragma once

#include <string>

#include "base/result.h"
#include "model/audit_entry.h"
#include "model/plan.h"
#include "model/sandbox_end.h"
#include "model/session.h"
#include "orchestrator/runs/verdict.h"
#include "orchestrator/sessions/lease.h"
#include "policy/decide.h"

namespace cloister::orchestrator {

// The end of a session, as its record, its programs and whoever waits for it hear of it.
struct SessionEnd {
  model::RunError reason;
  Cause programs = Cause::kSessionEnded;  // of those that run in it
  // For those who ask something of it from then on, or wait for its creation.
  Code code = Code::kConflict;
};

SessionEnd endOnRequest();
SessionEnd endOfLease(const model::Session& session, Lease::Limit limit);
SessionEnd endOfSandbox(const model::SandboxEnd& end, const model::Limits& limits);
SessionEnd endOfNode(const std::string& message);
SessionEnd endOfService();
SessionEnd endByDenial(const policy::Denied& denied);
// Nobody approved it, or what it was approved for is not what it would be now.
SessionEnd endByApproval(model::RunError reason);
// Its sandbox could not be had.
SessionEnd endByFault(const Error& fault);
// Processes that its programs left behind went on when the quota that `over` names was used up.
SessionEnd endByQuota(const Error& over);
// Something was taken from its agent, and no sandbox without that could be had.
SessionEnd endByRules(const Error& fault);

// The credential that made it is revoked or expired.
SessionEnd endByCredential(const model::Session& session);

// What an ended session answers: "doing: …".
Error endedError(const std::string& doing, const model::RunError& reason);

model::AuditEvent createdEvent(const model::Session& session, const std::string& request_sha256,
                               const std::string& rule);
// It is approved, and made from now on.
model::AuditEvent resumedEvent(const model::Session& session, const std::string& escalation);
model::AuditEvent startedEvent(const model::Session& session);
// To the sandbox that its record has now, from one of the runtime `from`; `action`: why.
model::AuditEvent movedEvent(const char* action, const model::Session& session,
                             const std::string& from, const model::Principal& by);
// The digest of its image, which its record has now, was not known before.
model::AuditEvent imageVerifiedEvent(const model::Session& session);
model::AuditEvent renewedEvent(const model::Session& session, const model::Principal& by);
// `by`: who asked for it; otherwise whose session it is.
model::AuditEvent endedEvent(const model::Session& session, const model::Principal& by);

}  // namespace cloister::orchestrator
