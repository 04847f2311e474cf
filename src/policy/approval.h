// SPDX-License-Identifier: Apache-2.0
// Decides who may decide on an escalation, and which requests an approval covers. Pure, like the
// rest of policy: each function changes the given escalation, or returns the reason and changes
// nothing.
//
// An approval is bound to a digest of everything that will run, to the requester, to the session or
// execution of the request, to its time, and to one use. An error of use() and stands() has in
// `field` one of the reasons below.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model/escalation.h"
#include "policy/decide.h"

namespace cloister::policy {

namespace approval {
inline constexpr std::string_view kMismatch = "approval_mismatch";
inline constexpr std::string_view kExpired = "approval_expired";
inline constexpr std::string_view kUsed = "approval_used";
inline constexpr std::string_view kPending = "approval_pending";
inline constexpr std::string_view kDenied = "approval_denied";
inline constexpr std::string_view kRevoked = "approval_revoked";     // the revoked credential of an
                                                                     // approver
inline constexpr std::string_view kRequester = "requester_revoked";  // the requester's revoked
                                                                     // credential
}  // namespace approval

// An approver's decision.
struct Ballot {
  model::Principal by;
  std::string person;  // the person represented by `by`
  bool approve = false;
  std::string reason;
  int64_t grant_us = 0;  // as model::Vote
  int64_t now = 0;       // wall-clock microseconds
};

// Counts a vote. The shortest validity that an approver wants holds; kInvalid: longer than asked. A
// single denial denies; approvals by `quorum` distinct persons approve. A denial can revoke an
// unused approval. A person whose vote was struck may vote again. kDenied: the voter is the
// requester, runs code, or has none of the roles; kConflict: already decided, expired, or the
// person has voted.
Result<> vote(model::Escalation& escalation, const Ballot& ballot);

// Removes votes made with any of the revoked `credentials`. An approval that thereby loses its
// quorum waits for votes again, until its original expiry. Returns whether anything changed.
bool strike(model::Escalation& escalation, const std::set<std::string>& credentials);

// Approves by a rule, without a person.
void approveByRule(model::Escalation& escalation, const std::string& reason, int64_t now);

// Denies by the service, before use: the code to run differs from the approved code, or an approval
// would be useless. kConflict: neither pending nor approved.
Result<> denyByRule(model::Escalation& escalation, const std::string& reason, int64_t now);

// The run about to start.
struct Use {
  model::Principal by;
  std::string execution_id;
  std::string session_id;
  std::string digest;
  int64_t now = 0;
  std::string_view operation = model::operation::kRun;  // or kSession
  // The digest of an approval requested before the image was verified, if the image is the same; ""
  // for none. Valid for approvals requested after `same_since`.
  std::string unverified_digest = {};
  int64_t same_since = 0;
};

// Spends the approval on the execution, or the session: approved → used.
Result<> use(model::Escalation& escalation, const Use& use);
// Whether the execution's used approval is still valid when its program is about to start.
// `wanted`: the requirement of the current policy, null for none. Only approvers with any of its
// roles count, whoever was asked.
Result<> stands(const model::Escalation& escalation, const Use& use, const NeedsApproval* wanted);

// Whether the program, its image, session, workspace or secrets differ from those approved.
bool isOtherProgram(const model::Escalation& escalation, const Use& use);
// The message for that; `why`: what differs, "" if not known.
std::string otherProgram(const model::Escalation& escalation, const std::string& why = "");

// Whether enough approvers have a role named by the current policy.
bool satisfies(const model::Escalation& escalation, const NeedsApproval& wanted);

// Expires a pending or approved escalation at its time. kConflict before.
Result<> expire(model::Escalation& escalation, int64_t now);

// Whether its rule names a role of `by`, required for a vote besides the permission.
bool mayDecide(const model::Escalation& escalation, const model::Principal& by);

// The reason that credentials with this role alone decide on no escalation, with the roles that do;
// "" for a role that decides.
std::string neverDecides(model::Role role);

}  // namespace cloister::policy
