// SPDX-License-Identifier: Apache-2.0
// Escalation: a request to exceed what a principal may do, from its making to its one end, bound by
// a digest to exactly what was shown to those who decide. docs/ESCALATIONS.md tells of it.
//
// pending → approved → used (it has let one execution run) or expired (a permission whose time is
// over); pending → denied | expired; approved → denied (taken back before it was used) or pending
// (a credential that approved it was revoked before it was used).
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

// What is asked for. `kRun` is a program and `kSession` the making of a session, bound by their
// digests; the others name what an agent wants to do in its sandboxes for a while, and what with
// (`subject`).
namespace operation {
inline constexpr std::string_view kRun = "run";
inline constexpr std::string_view kSession = "session";
inline constexpr std::string_view kFileRead = "file_read";
inline constexpr std::string_view kFileWrite = "file_write";
inline constexpr std::string_view kFileDelete = "file_delete";
inline constexpr std::string_view kCommand = "command";
inline constexpr std::string_view kNetwork = "network";
}  // namespace operation
// Of those, what is not a run: "file_read, file_write, ...".
std::string operationsInSandboxes();
bool isOperationInSandboxes(std::string_view name);

// What one approver said.
struct EscalationDecision {
  Principal by;
  std::string person;  // whom `by` stands for: two keys of one person are one; see personOf()
  bool approve = false;
  bool automatic = false;  // by a rule; then `person` is "" and counts for the whole quorum
  std::string reason;
  int64_t at = 0;  // wall-clock microseconds, as all times here
  // The credential that it was given with was revoked before what was approved began: it does not
  // count.
  bool revoked = false;
};

// Something that an agent's sandbox does not let it do: a kind of operation, and what with.
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
  std::string subject;  // a path, a command, a host; of a run what it runs, in a few words
  std::string reason;   // why the requester needs it, or why policy wants an approval
  std::string display;  // what will happen, for those who decide; safe to print (safeText())
  Principal requester;
  std::string requester_person;
  std::string execution_id;    // that waits for it, or has used it; "" if none
  std::string session_id;      // that it is good in, or that waits for it; "" where it runs alone
  std::string digest;          // of all that will run; "" unless `operation` is a run
  std::string request_sha256;  // of what was asked for, as it is stored; "" if nothing is
  // Of the list of what its session's workspace had in it, as it is stored; "" if none is.
  std::string workspace_sha256;
  std::vector<WantedOperation> lifts;  // of a run: what of its agent's rules it is approved with
  std::string rule;  // of the policy that wants it, "" for one that was asked for by hand
  std::vector<std::string> roles;  // who decides has one of them
  uint32_t quorum = 1;
  std::vector<EscalationDecision> decisions;
  int64_t grant_us = 0;  // how long an approval is good
  int64_t created_at = 0;
  int64_t expires_at = 0;        // nobody may approve it from here on
  int64_t decided_at = 0;        // it was approved, denied, or expired
  int64_t grant_expires_at = 0;  // the approval is good up to here
  int64_t ended_at = 0;          // denied, expired or used
  // Executions and sessions that wait for it now; the service counts them, the ledger does not.
  uint32_t waiting = 0;

  [[nodiscard]] uint32_t approvals() const;
  // When its status changes by itself; 0: never.
  [[nodiscard]] int64_t dueAt() const;
};

bool isEscalationId(std::string_view text);
// ESC-2026-007 for the 7th of 2026.
std::string escalationId(int year, uint64_t number);

// As the API shows it.
base::json::object toJsonObject(const Escalation& escalation);
// The line of a display that shows one variable of the environment, and a display without what
// follows the names in such lines. Each line of a display is one thing's, for safeText() leaves no
// line end in what it shows.
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
  std::string approver;  // who the caller says it is, "" if it does not; must be so
};
Result<Vote> parseVote(const base::json::object& body, bool needs_reason);

// What an agent's requests meet before a person is asked.
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
