// SPDX-License-Identifier: Apache-2.0
// The content of an approval: the digest of the whole execution, the text shown to approvers, the
// person behind a credential, and the audit rows.
//
// The digest covers the request as it was canonicalised (language, code or command, arguments,
// variables, files, input, directory, dependencies, network, limits, runtime, tier, artifacts,
// metadata), the encoded program of the request, the digest of the image, and the session with the
// state of its workspace and the versions of its secrets at the time of the request. The name of
// the approval itself is not part of the digest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/agent_sandbox.h"
#include "model/audit_entry.h"
#include "model/escalation.h"
#include "model/language.h"
#include "policy/decide.h"
#include "store/store.h"

namespace cloister::orchestrator {

struct EscalationConfig {
  int64_t grant_us = int64_t{7200} * 1'000'000;
  int64_t ttl_us = int64_t{3600} * 1'000'000;  // of an escalation by hand
  store::EscalationBounds bounds;
  std::vector<std::string> channels;  // the channels to notify
  std::vector<std::string> roles = {"approver"};
  uint32_t pending_per_agent = 20;               // waiting runs of an agent; more are denied
  uint64_t workspace_bytes = uint64_t{1} << 30;  // of a session with an approval
  uint32_t workspace_files = 100'000;            // likewise
  std::vector<std::string> safe_operations = {"file_read", "file_write", "file_delete", "command"};
};

struct Bound {
  std::string request_sha256;  // of the canonical request, without neutral members
  std::string spec_sha256;     // of the encoded program, under the same name for each execution
  std::string session_id;
  std::string workspace_sha256 = {};  // of the session's workspace at the request
  std::string workspace_shown = {};   // the same for people
  std::string secrets = {};           // secretVersions()
};
// The versions that the secrets of a request have now, "NAME@VERSION" in lines; "" without secrets.
// An approval is of the values that were there: another value is another program's input.
std::string secretVersions(store::Store& store, const std::string& tenant,
                           const std::vector<model::SecretUse>& uses);
// The digests of a stored request and of its program, resolved anew: the files of a session's
// program have names of their execution, and policy may have lowered limits that the request did
// not name.
Result<Bound> boundOf(const std::string& request_json, const std::string& session_id,
                      const model::LanguageSet& languages);
std::string digestOf(const Bound& bound, const std::string& image_digest);

// The same for the creation of a session: a session has no program yet, and the digest fits each
// session made with the same request.
Result<Bound> boundOfSession(const std::string& request_json);

// For people: lines of safe text, some 16 KiB at most; omitted parts are counted, and the digest
// covers them as well. `workspace`: the session's (WorkspaceState::shown()).
std::string displayOf(const std::string& request_json, const std::string& image_digest,
                      const std::string& session_id, const std::string& workspace = "");
std::string displayOfSession(const std::string& request_json, const std::string& image_digest);
// "for python".
std::string subjectOfSession(const std::string& request_json);
// "python code, 812 bytes", "command ls -l".
std::string subjectOf(const std::string& request_json);

// The person behind a credential: its user, else its agent, else the key at the root of its
// descent. Two credentials of the same person give the same text. Reads the ledger.
Result<std::string> personOf(store::Store& store, const model::Principal& principal);

// The escalation settings in the sandbox of the agent `of`; none without a sandbox.
std::optional<model::AgentEscalation> agentSettings(store::Store& store,
                                                    const model::Principal& of);
// The channels to notify: the configured channels that the agent's sandbox names.
std::vector<std::string> channelsFor(store::Store& store, const model::Principal& requester,
                                     const EscalationConfig& config);

// Two requests wait for the same escalation if these members are equal.
struct Alike {
  const model::Principal& by;
  std::string person;
  std::string_view operation;
  std::string digest;
  std::vector<model::WantedOperation> lifts = {};
};

// Whether the table of safe operations may approve all of these; `safe` has names of
// model::operation.
bool areSafeOperations(const std::vector<model::WantedOperation>& wanted,
                       const std::vector<std::string>& safe);

// The error of a waiting execution; `what` says how to go on, "it runs once it is approved".
model::RunError approvalError(const policy::NeedsApproval& wanted, const std::string& what);
// The error of an execution whose approval was not given.
model::RunError notApproved(const model::Escalation& escalation);

// The approval demanded by policy, as an escalation for the ledger.
struct Wanted {
  const model::Principal& requester;
  std::string person;
  const policy::NeedsApproval& by_policy;
  std::string execution_id;  // "" where the execution does not wait
  std::string session_id;
  std::vector<model::WantedOperation> lifts;  // of its agent's rules
  std::vector<std::string> channels;          // the channels to notify
  int64_t now = 0;
};
store::NewEscalation escalationFor(const Wanted& wanted, const std::string& request_json,
                                   const Bound& bound, const std::string& image_digest,
                                   const EscalationConfig& config);

// The same of the making of a session, `wanted.session_id`.
store::NewEscalation escalationForSession(const Wanted& wanted, std::string digest,
                                          const std::string& request_json,
                                          const std::string& image_digest,
                                          const EscalationConfig& config);

model::AuditEvent requestedEvent(const model::Escalation& escalation);
// A counted vote, or a refused vote (`why`), with its voter and its requester.
model::AuditEvent votedEvent(const model::Escalation& escalation, const model::Principal& by,
                             bool approve, const std::string& reason);
// A rule's decision, the escalation's last.
model::AuditEvent ruledEvent(const model::Escalation& escalation);
model::AuditEvent refusedVoteEvent(const model::Escalation& escalation, const model::Principal& by,
                                   bool approve, const std::string& why);
// Votes do not count any more: their credentials are revoked.
model::AuditEvent struckEvent(const model::Escalation& escalation);
model::AuditEvent usedEvent(const model::Escalation& escalation);
model::AuditEvent expiredEvent(const model::Escalation& escalation);
// All executions that waited for the escalation have ended.
model::AuditEvent withdrawnEvent(const model::Escalation& escalation);

}  // namespace cloister::orchestrator
