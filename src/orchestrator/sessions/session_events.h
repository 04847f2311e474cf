// SPDX-License-Identifier: Apache-2.0
// A session's steps in its record and in the audit log. Pure.
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

// The end of a session, for its record, its programs and waiting clients.
struct SessionEnd {
  model::RunError reason;
  Cause programs = Cause::kSessionEnded;  // for running programs
  // For later requests to the session, and for clients waiting for its creation.
  Code code = Code::kConflict;
};

SessionEnd endOnRequest();
SessionEnd endOfLease(const model::Session& session, Lease::Limit limit);
SessionEnd endOfSandbox(const model::SandboxEnd& end, const model::Limits& limits);
SessionEnd endOfNode(const std::string& message);
SessionEnd endOfService();
SessionEnd endByDenial(const policy::Denied& denied);
// No approval was given, or the approved effect would now differ.
SessionEnd endByApproval(model::RunError reason);
// Its sandbox could not be had.
SessionEnd endByFault(const Error& fault);
// Processes left by the session's programs continued after the quota named by `over` was used up.
SessionEnd endByQuota(const Error& over);
// The agent lost a permission, and no sandbox without the permission was available.
SessionEnd endByRules(const Error& fault);

// The credential of the session's maker is revoked or expired.
SessionEnd endByCredential(const model::Session& session);

// The answer of an ended session: "doing: …".
Error endedError(const std::string& doing, const model::RunError& reason);

model::AuditEvent createdEvent(const model::Session& session, const std::string& request_sha256,
                               const std::string& rule);
// The session is approved, and is made from now on.
model::AuditEvent resumedEvent(const model::Session& session, const std::string& escalation);
model::AuditEvent startedEvent(const model::Session& session);
// The session moved to the sandbox in its record, from the runtime `from`; `action`: the reason.
model::AuditEvent movedEvent(const char* action, const model::Session& session,
                             const std::string& from, const model::Principal& by);
// The image's digest, now in the record, was unknown before.
model::AuditEvent imageVerifiedEvent(const model::Session& session);
model::AuditEvent renewedEvent(const model::Session& session, const model::Principal& by);
// The record's metadata or network was changed.
model::AuditEvent amendedEvent(const model::Session& session, const model::Principal& by,
                               const base::json::array& changed);
// `by`: the requester; otherwise the session's owner.
model::AuditEvent endedEvent(const model::Session& session, const model::Principal& by);

}  // namespace cloister::orchestrator
