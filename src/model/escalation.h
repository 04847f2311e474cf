// SPDX-License-Identifier: Apache-2.0
// Escalation: a request to exceed the rights of a principal, from its creation to its one end. A
// digest binds the escalation to exactly the facts that the deciders saw. docs/ESCALATIONS.md
// explains escalations.
//
// pending → approved → used (one execution has run with the approval) or expired (the time of a
// permission is over); pending → denied | expired; approved → denied (revoked before the use) or
// pending (a credential of an approver was revoked before the use).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/principal.h"
#include "model/shown_text.h"

namespace cloister::model {

enum class EscalationStatus : uint8_t { kPending, kApproved, kDenied, kExpired, kUsed };

std::string_view statusName(EscalationStatus status);
std::optional<EscalationStatus> escalationStatusFromName(std::string_view name);
bool mayBecome(EscalationStatus from, EscalationStatus to);

// The requested operation. `kRun` is a program and `kSession` a new session, both bound by their
// digests; the others are operations wanted by an agent in its sandboxes for a time, on a
// `subject`.
namespace operation {
inline constexpr std::string_view kRun = "run";
inline constexpr std::string_view kSession = "session";
inline constexpr std::string_view kFileRead = "file_read";
inline constexpr std::string_view kFileWrite = "file_write";
inline constexpr std::string_view kFileDelete = "file_delete";
inline constexpr std::string_view kCommand = "command";
inline constexpr std::string_view kNetwork = "network";
}  // namespace operation
// The operations other than runs and sessions: "file_read, file_write, ...".
std::string operationsInSandboxes();
bool isOperationInSandboxes(std::string_view name);

// An approver's decision.
struct EscalationDecision {
  Principal by;
  std::string person;  // the person represented by `by`: two keys of a person count once; see
                       // personOf()
  bool approve = false;
  bool automatic = false;  // by a rule; then `person` is "" and counts for the whole quorum
  std::string reason;
  int64_t at = 0;  // wall-clock microseconds, as all times here
  // The decision's credential was revoked before the approved operation began: the decision does
  // not count.
  bool revoked = false;
};

// An operation forbidden by an agent's sandbox: its kind, and its target.
struct WantedOperation {
  std::string operation;
  std::string target;
  friend bool operator==(const WantedOperation&, const WantedOperation&) = default;
};

struct Escalation {
  std::string id;    // ESC-YYYY-NNN, of its tenant; given by the ledger
  uint64_t seq = 0;  // order of creation, of all tenants
  EscalationStatus status = EscalationStatus::kPending;
  std::string operation;
  std::string subject;  // a path, a command, a host; for a run a short text of the program
  std::string reason;   // the requester's or the policy's reason for the approval
  std::string display;  // the operation's effect, for approvers; safe to print (safeText())
  Principal requester;
  std::string requester_person;
  std::string execution_id;    // of the waiting execution, or of the user of the approval; "" if
                               // none
  std::string session_id;      // of the session with the approval, or of the waiting session; ""
                               // for a separate run
  std::string digest;          // of all code to run; "" unless `operation` is a run
  std::string request_sha256;  // of the stored request; "" if nothing is stored
  // Digest of the stored list of the session's workspace content; "" if nothing is stored.
  std::string workspace_sha256;
  std::vector<WantedOperation> lifts;  // of a run: approved exceptions from its agent's rules
  std::string rule;                    // the policy's rule, "" if requested by hand
  std::string program;                 // whose connection was refused; "" if not known
  std::vector<std::string> roles;      // an approver has at least one of these
  uint32_t quorum = 1;
  std::vector<EscalationDecision> decisions;
  int64_t grant_us = 0;  // how long an approval is good
  int64_t created_at = 0;
  int64_t expires_at = 0;        // no approval is possible from then on
  int64_t decided_at = 0;        // time of approval, denial or expiry
  int64_t grant_expires_at = 0;  // the approval is good up to here
  int64_t ended_at = 0;          // denied, expired or used
  // Of an expired one that ended with its last run or session, and not by time: how this one ended.
  std::string ended_reason = {};
  // Number of waiting executions and sessions; counted by the service, not the ledger.
  uint32_t waiting = 0;

  [[nodiscard]] uint32_t approvals() const;
  // When its status changes by itself; 0: never.
  [[nodiscard]] int64_t dueAt() const;
};

bool isEscalationId(std::string_view text);
// ESC-2026-007 for the 7th of 2026.
std::string escalationId(int year, uint64_t number);

// The form in the API.
base::json::object toJsonObject(const Escalation& escalation);
// The line of a display for an environment variable, and a display without the values in such
// lines. Each line of a display shows a single item, since safeText() leaves no line end.
std::string environmentLine(std::string_view name, std::string_view shown_value);
std::string withoutValues(std::string_view display);

// The body of POST /v1/escalations.
struct EscalationRequest {
  std::string operation;
  std::string subject;  // `path`, `command` or `host`
  std::string reason;
  std::optional<base::json::object> run;  // of a run: the body of POST /v1/executions
};
Result<EscalationRequest> parseEscalationRequest(const base::json::object& body);

// The bodies of :approve and :deny.
struct Vote {
  std::string reason;
  std::string approver;  // the approver as claimed by the caller, "" without a claim; must match
  int64_t grant_us = 0;  // of an approval: how long it is good at most; 0: as the request says
};
Result<Vote> parseVote(const base::json::object& body, bool needs_reason);

// Checks of an agent's requests before a person is asked.
struct EscalationPolicy {
  std::string agent;
  bool auto_approve_safe = false;
  Principal set_by = {};
  int64_t set_at = 0;  // 0: the default
};
base::json::object toJsonObject(const EscalationPolicy& policy);
// The body of PUT /v1/agents/{agent}/escalation-policy: {"auto_approve": "safe" | "none"}.
Result<bool> parseAutoApprove(const base::json::object& body);

}  // namespace cloister::model
