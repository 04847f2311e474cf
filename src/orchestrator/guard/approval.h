// SPDX-License-Identifier: Apache-2.0
// What an approval is asked for and bound to: the digest of all that will run, what those who
// decide are shown of it, whom a credential stands for, and the audit rows.
//
// The digest covers the request as it was canonicalised (language, code or command, arguments,
// variables, files, input, directory, dependencies, network, limits, runtime, tier, artifacts,
// metadata), the encoded program that the request resolved to, the digest of the image, and the
// session with the state of its workspace at that moment. The name of the approval itself is not
// part of it.
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
  int64_t ttl_us = int64_t{3600} * 1'000'000;  // of one made by hand
  store::EscalationBounds bounds;
  std::vector<std::string> channels;  // who are told
  std::vector<std::string> roles = {"approver"};
  uint32_t pending_per_agent = 20;               // runs of one agent that wait; more are denied
  uint64_t workspace_bytes = uint64_t{1} << 30;  // of a session in which an approval is asked for
  uint32_t workspace_files = 100'000;            // likewise
  std::vector<std::string> safe_operations = {"file_read", "file_write", "file_delete", "command"};
};

struct Bound {
  std::string request_sha256;  // of the canonical request, without what changes nothing
  std::string spec_sha256;     // of the encoded program, under the same name for each execution
  std::string session_id;
  std::string workspace_sha256 = {};  // of the session's, as it was when it was asked for
  std::string workspace_shown = {};   // the same for people
};
// Of a stored request and the program that it resolves to, made anew: the files of a session's
// program have names of an execution's own, and policy may have lowered what was not asked for.
Result<Bound> boundOf(const std::string& request_json, const std::string& session_id,
                      const model::LanguageSet& languages);
std::string digestOf(const Bound& bound, const std::string& image_digest);

// The same of a session that is asked for: it has no program yet, and the digest is good for each
// session that is made in this way.
Result<Bound> boundOfSession(const std::string& request_json);

// For people: lines of safe text, some 16 KiB at most; what is left out is counted, and covered by
// the digest all the same.
// `workspace`: of the session's (WorkspaceState::shown()).
std::string displayOf(const std::string& request_json, const std::string& image_digest,
                      const std::string& session_id, const std::string& workspace = "");
std::string displayOfSession(const std::string& request_json, const std::string& image_digest);
// "for python".
std::string subjectOfSession(const std::string& request_json);
// "python code, 812 bytes", "command ls -l".
std::string subjectOf(const std::string& request_json);

// The person behind a credential: its user, else its agent, else the key that it descends from. Two
// credentials of one person give the same. Reads the ledger.
Result<std::string> personOf(store::Store& store, const model::Principal& principal);

// What the sandbox of the agent that `of` is says of its escalations; none where it has none.
std::optional<model::AgentEscalation> agentSettings(store::Store& store,
                                                    const model::Principal& of);
// Who is told of a request of theirs: of those configured, the ones that the agent's sandbox names.
std::vector<std::string> channelsFor(store::Store& store, const model::Principal& requester,
                                     const EscalationConfig& config);

// What has to be the same for two requests to wait for one escalation.
struct Alike {
  const model::Principal& by;
  std::string person;
  std::string_view operation;
  std::string digest;
  std::vector<model::WantedOperation> lifts = {};
};

// Why something waits: `what` says what becomes of it, "it runs once it is approved".
model::RunError approvalError(const policy::NeedsApproval& wanted, const std::string& what);
// Why it is not done after all: nobody approved it.
model::RunError notApproved(const model::Escalation& escalation);

// What policy wants approved, as an escalation for the ledger.
struct Wanted {
  const model::Principal& requester;
  std::string person;
  const policy::NeedsApproval& by_policy;
  std::string execution_id;  // "" where the execution does not wait
  std::string session_id;
  std::vector<model::WantedOperation> lifts;  // of its agent's rules
  std::vector<std::string> channels;          // who are told
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
// A vote that was counted, or refused (`why`); by whom, on whose request.
model::AuditEvent votedEvent(const model::Escalation& escalation, const model::Principal& by,
                             bool approve, const std::string& reason);
model::AuditEvent refusedVoteEvent(const model::Escalation& escalation, const model::Principal& by,
                                   bool approve, const std::string& why);
// Votes do not count any more: their credentials are revoked.
model::AuditEvent struckEvent(const model::Escalation& escalation);
model::AuditEvent usedEvent(const model::Escalation& escalation);
model::AuditEvent expiredEvent(const model::Escalation& escalation);
// What waited for it has ended.
model::AuditEvent withdrawnEvent(const model::Escalation& escalation);

}  // namespace cloister::orchestrator
