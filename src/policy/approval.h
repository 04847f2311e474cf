// SPDX-License-Identifier: Apache-2.0
// Who may decide on an escalation, and what an approval is good for. Pure, like the rest of policy:
// each function changes the escalation it is given, or says why not and changes nothing.
//
// An approval is bound: to a digest of all that will run, to who asked, to the session or execution
// it was asked for, to its time, and to one use. An error of use() and stands() has in `field` one
// of the reasons below.
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
inline constexpr std::string_view kRevoked = "approval_revoked";     // a credential that approved
inline constexpr std::string_view kRequester = "requester_revoked";  // the one that asked
}  // namespace approval

// What one approver says.
struct Ballot {
  model::Principal by;
  std::string person;  // whom `by` stands for
  bool approve = false;
  std::string reason;
  int64_t now = 0;  // wall-clock microseconds
};

// Counts a vote. One denial denies; approvals of `quorum` distinct persons approve. An approval
// that was not used yet can be taken back by a denial. A person whose vote was struck may vote.
// kDenied: for the requester, for whoever runs code, without one of the roles; kConflict: it is
// decided already, its time is over, the person has voted.
Result<> vote(model::Escalation& escalation, const Ballot& ballot);

// Votes that were given with one of `credentials`, which are revoked, no longer count. What had its
// quorum by them waits for votes again, up to the time that it had. Whether it changed anything.
bool strike(model::Escalation& escalation, const std::set<std::string>& credentials);

// By a rule, where nobody has to be asked.
void approveByRule(model::Escalation& escalation, const std::string& reason, int64_t now);

// By the service, before it was used: what would run now is not what was approved, or nobody could
// use an approval. kConflict: it is neither pending nor approved.
Result<> denyByRule(model::Escalation& escalation, const std::string& reason, int64_t now);

// What is about to run.
struct Use {
  model::Principal by;
  std::string execution_id;
  std::string session_id;
  std::string digest;
  int64_t now = 0;
  std::string_view operation = model::operation::kRun;  // or kSession
  // What an approval is bound to that was asked for while the image was not verified, where it is
  // the same image; "" for none. Good for those asked for after `same_since`.
  std::string unverified_digest = {};
  int64_t same_since = 0;
};

// Spends the approval on the execution, or the session: approved → used.
Result<> use(model::Escalation& escalation, const Use& use);
// Whether the approval that this execution has used still stands, when its program is about to
// start. `wanted`: what policy wants now, null if it wants none. Only approvals of those with one
// of its roles count, whoever was asked.
Result<> stands(const model::Escalation& escalation, const Use& use, const NeedsApproval* wanted);

// Whether enough of those who approved have a role that policy names now.
bool satisfies(const model::Escalation& escalation, const NeedsApproval& wanted);

// Its time is over: pending or approved → expired. kConflict before that.
Result<> expire(model::Escalation& escalation, int64_t now);

// Whether its rule names a role of `by`: who votes on it needs that besides the permission.
bool mayDecide(const model::Escalation& escalation, const model::Principal& by);

}  // namespace cloister::policy
