// SPDX-License-Identifier: Apache-2.0
#include "policy/approval.h"

#include <algorithm>

#include "base/crypto.h"
#include "model/record_times.h"

namespace cloister::policy {
namespace {

using model::Escalation;
using model::EscalationStatus;
using model::Principal;

std::unexpected<Error> refused(std::string_view reason, const std::string& message) {
  return fail(Code::kConflict, message, std::string(reason));
}

// A person's name may be written in several ways: "sam", "SAM", "sam ".
bool isSameName(std::string_view one, std::string_view other) {
  const auto trimmed = [](std::string_view name) {
    while (name.starts_with(' '))
      name.remove_prefix(1);
    while (name.ends_with(' '))
      name.remove_suffix(1);
    return name;
  };
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(trimmed(one), trimmed(other), {}, lower, lower);
}

// Compares texts of personOf(): tenants, agents and keys are compared byte by byte.
bool isSamePerson(std::string_view one, std::string_view other) {
  constexpr std::string_view kUser = "/user:";
  const size_t at = one.find(kUser);
  if (at == std::string_view::npos || other.find(kUser) != at) return one == other;
  const size_t name = at + kUser.size();
  return one.substr(0, name) == other.substr(0, name) &&
         isSameName(one.substr(name), other.substr(name));
}

// Whether credential, user or agent is the requester's: then the vote is not independent.
bool isRequester(const Escalation& e, const Ballot& ballot) {
  const Principal& who = e.requester;
  const Principal& by = ballot.by;
  if (isSamePerson(ballot.person, e.requester_person)) return true;
  if (!by.key_id.empty() && by.key_id == who.key_id) return true;
  if (by.tenant != who.tenant) return false;
  return (!by.user.empty() && isSameName(by.user, who.user)) ||
         (!by.agent.empty() && by.agent == who.agent);
}

bool hasRole(const std::vector<std::string>& roles, const Principal& by) {
  if (by.isAdmin()) return true;
  return std::ranges::any_of(roles, [&](const std::string& name) {
    const auto role = model::roleFromName(name);
    return role && by.roles.has(*role);
  });
}

Result<> mayVote(const Escalation& e, const Ballot& ballot) {
  if (isRequester(e, ballot)) {
    return fail(Code::kDenied, "deciding on " + e.id +
                                   ": who asked cannot decide; it takes another person, with a "
                                   "credential of their own");
  }
  if (ballot.by.roles.has(model::Role::kAgent)) {
    return fail(Code::kDenied,
                "deciding on " + e.id + ": a credential that runs code cannot decide");
  }
  if (hasRole(e.roles, ballot.by)) return {};
  std::string roles;
  for (const std::string& role : e.roles)
    roles += (roles.empty() ? "" : " or ") + role;
  return fail(Code::kDenied, "deciding on " + e.id + ": it takes the role " + roles);
}

// Whether the state permits another vote.
Result<> isOpen(const Escalation& e, const Ballot& ballot) {
  const bool takes_back = !ballot.approve && e.status == EscalationStatus::kApproved;
  if (e.status != EscalationStatus::kPending && !takes_back) {
    return fail(Code::kConflict, "deciding on " + e.id + ": it is " +
                                     std::string(model::statusName(e.status)) + " already" +
                                     (e.ended_reason.empty() ? "" : ": " + e.ended_reason));
  }
  if (e.status == EscalationStatus::kPending && ballot.now >= e.expires_at) {
    return fail(Code::kConflict,
                "deciding on " + e.id + ": its time is over; it has to be asked anew");
  }
  return {};
}

bool hasDigest(const Escalation& e, const Use& use) {
  const bool same_image = !use.unverified_digest.empty() && e.created_at > use.same_since &&
                          base::equalSecret(e.digest, use.unverified_digest);
  return !e.digest.empty() && (same_image || base::equalSecret(e.digest, use.digest));
}

// Checks the bindings: a run of another tenant or agent, or in another session, is not the
// displayed run.
Result<> isBoundTo(const Escalation& e, const Use& use) {
  const Principal& who = e.requester;
  const bool same_requester = who.tenant == use.by.tenant && who.app == use.by.app &&
                              who.agent == use.by.agent && who.user == use.by.user;
  if (!same_requester) {
    return refused(approval::kMismatch, e.id + " was asked for by another principal");
  }
  if (e.operation != use.operation) {
    return refused(approval::kMismatch,
                   e.id + " is about " + e.operation + ", and not a " + std::string(use.operation));
  }
  if (e.session_id != use.session_id) {
    return refused(approval::kMismatch, e.id + " was asked for in another session");
  }
  if (!e.execution_id.empty() && e.execution_id != use.execution_id) {
    return refused(approval::kMismatch, e.id + " is for the execution " + e.execution_id);
  }
  if (!hasDigest(e, use)) return refused(approval::kMismatch, otherProgram(e));
  return {};
}

// The number of approvers accepted by the current policy, which may not have been asked before, or
// have named other roles.
uint32_t approvalsOf(const Escalation& e, const std::vector<std::string>& roles) {
  return static_cast<uint32_t>(
      std::ranges::count_if(e.decisions, [&](const model::EscalationDecision& decision) {
        return decision.approve && !decision.automatic && !decision.revoked &&
               hasRole(roles, decision.by);
      }));
}

Result<> hasItsVotes(const Escalation& e) {
  const bool struck = std::ranges::any_of(e.decisions, &model::EscalationDecision::revoked);
  if (!struck || e.approvals() >= e.quorum) return {};
  const bool waits = e.status == EscalationStatus::kPending;
  return refused(approval::kRevoked, "a credential that approved " + e.id + " was revoked since; " +
                                         (waits ? "it waits for another vote" : "ask anew"));
}

Result<> isInTime(const Escalation& e, const Use& use) {
  if (use.now < e.grant_expires_at) return {};
  return refused(approval::kExpired, "the time of " + e.id + " is over; ask anew");
}

}  // namespace

bool isOtherProgram(const Escalation& escalation, const Use& use) {
  return !hasDigest(escalation, use);
}

std::string otherProgram(const Escalation& escalation, const std::string& why) {
  return "what is about to run is not what " + escalation.id + " was approved for" +
         (why.empty() ? "" : ": " + why) + "; ask anew";
}

bool satisfies(const Escalation& escalation, const NeedsApproval& wanted) {
  return approvalsOf(escalation, wanted.approver_roles) >= wanted.quorum;
}

bool mayDecide(const Escalation& escalation, const Principal& by) {
  return !by.roles.has(model::Role::kAgent) && hasRole(escalation.roles, by);
}

std::string neverDecides(model::Role role) {
  constexpr auto kDecide = model::Permission::kEscalationDecide;
  if (model::may(role, kDecide)) return {};
  std::string deciders;
  for (const model::Role each : model::kAllRoles) {
    if (!model::may(each, kDecide)) continue;
    deciders += (deciders.empty() ? "" : ", ") + std::string(model::roleName(each));
  }
  const std::string name(model::roleName(role));
  return (role == model::Role::kAgent ? "a credential that runs code (agent) never decides"
                                      : "the role " + name + " alone never decides") +
         "; name one of " + deciders;
}

Result<> vote(Escalation& e, const Ballot& ballot) {
  TRY(mayVote(e, ballot));
  TRY(isOpen(e, ballot));
  const bool voted = std::ranges::any_of(e.decisions, [&](const auto& each) {
    return each.approve == ballot.approve && isSamePerson(each.person, ballot.person) &&
           !each.revoked;
  });
  if (voted) {
    return fail(Code::kConflict,
                "deciding on " + e.id + ": you have approved it already, and a person counts once");
  }
  if (ballot.grant_us > e.grant_us) {
    return fail(Code::kInvalid,
                "grant_seconds: an approval of " + e.id + " is good for at most " +
                    std::to_string(e.grant_us / 1'000'000) + " seconds",
                "grant_seconds");
  }
  if (ballot.grant_us > 0) e.grant_us = ballot.grant_us;
  const int64_t at = std::max(ballot.now, latestTime(e));
  e.decisions.push_back({.by = ballot.by,
                         .person = ballot.person,
                         .approve = ballot.approve,
                         .automatic = false,
                         .reason = ballot.reason,
                         .at = at});
  if (!ballot.approve) {
    e.status = EscalationStatus::kDenied;
    e.decided_at = e.ended_at = at;
  } else if (e.approvals() >= e.quorum) {
    e.status = EscalationStatus::kApproved;
    e.decided_at = at;
    e.grant_expires_at = at + e.grant_us;
  }
  return {};
}

namespace {

model::EscalationDecision byRule(const Escalation& e, bool approve, const std::string& reason,
                                 int64_t now) {
  return {.by = {.tenant = e.requester.tenant,
                 .app = "cloister",
                 .agent = "",
                 .user = "",
                 .roles = {},
                 .key_id = ""},
          .person = "",
          .approve = approve,
          .automatic = true,
          .reason = reason,
          .at = now};
}

}  // namespace

Result<> denyByRule(Escalation& e, const std::string& reason, int64_t now) {
  if (e.status != EscalationStatus::kApproved && e.status != EscalationStatus::kPending) {
    return fail(Code::kConflict, e.id + " is " + std::string(model::statusName(e.status)));
  }
  const int64_t at = std::max(now, latestTime(e));
  e.decisions.push_back(byRule(e, false, reason, at));
  e.status = EscalationStatus::kDenied;
  e.decided_at = e.ended_at = at;
  return {};
}

bool strike(Escalation& e, const std::set<std::string>& credentials) {
  bool struck = false;
  for (model::EscalationDecision& each : e.decisions) {
    if (!each.approve || each.automatic || each.revoked) continue;
    if (!credentials.contains(each.by.key_id)) continue;
    each.revoked = struck = true;
  }
  if (struck && e.status == EscalationStatus::kApproved && e.approvals() < e.quorum) {
    e.status = EscalationStatus::kPending;
    e.decided_at = e.grant_expires_at = 0;
  }
  return struck;
}

void approveByRule(Escalation& e, const std::string& reason, int64_t now) {
  const int64_t at = std::max(now, latestTime(e));
  e.decisions.push_back(byRule(e, true, reason, at));
  e.status = EscalationStatus::kApproved;
  e.decided_at = at;
  e.grant_expires_at = at + e.grant_us;
}

Result<> use(Escalation& e, const Use& use) {
  switch (e.status) {
    case EscalationStatus::kUsed:
      return refused(approval::kUsed, e.id + " has been used by " +
                                          (e.execution_id.empty() ? e.session_id : e.execution_id) +
                                          "; an approval is good for one " + e.operation +
                                          ", ask anew");
    case EscalationStatus::kDenied:
      return refused(approval::kDenied, e.id + " was denied");
    case EscalationStatus::kExpired:
      return refused(approval::kExpired, "the time of " + e.id + " is over; ask anew");
    case EscalationStatus::kPending:
      TRY(hasItsVotes(e));
      return refused(approval::kPending, e.id + " is not approved yet");
    case EscalationStatus::kApproved:
      break;
  }
  TRY(hasItsVotes(e));
  TRY(isInTime(e, use));
  TRY(isBoundTo(e, use));
  e.status = EscalationStatus::kUsed;
  e.execution_id = use.execution_id;
  e.ended_at = std::max(use.now, latestTime(e));
  return {};
}

Result<> stands(const Escalation& e, const Use& use, const NeedsApproval* wanted) {
  if (e.status != EscalationStatus::kUsed || e.execution_id != use.execution_id) {
    return refused(approval::kUsed, e.id + " is not this execution's");
  }
  TRY(hasItsVotes(e));
  TRY(isInTime(e, use));
  TRY(isBoundTo(e, use));
  if (wanted == nullptr) return {};
  if (const uint32_t have = approvalsOf(e, wanted->approver_roles); have < wanted->quorum) {
    return refused(approval::kMismatch, "the policy wants " + std::to_string(wanted->quorum) +
                                            " approvals of those that " + wanted->rule +
                                            " names, and " + e.id + " has " + std::to_string(have) +
                                            "; ask anew");
  }
  return {};
}

Result<> expire(Escalation& e, int64_t now) {
  if (e.dueAt() == 0 || now < e.dueAt()) {
    return fail(Code::kConflict, e.id + " is not at its end");
  }
  const int64_t at = std::max(now, latestTime(e));
  if (e.status == EscalationStatus::kPending) e.decided_at = at;
  e.status = EscalationStatus::kExpired;
  e.ended_at = at;
  return {};
}

}  // namespace cloister::policy
