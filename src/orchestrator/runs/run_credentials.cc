// SPDX-License-Identifier: Apache-2.0
// What a credential began ends with it, as far as the configuration says so: terminals always,
// those of tokens and certificates too; sessions and other programs of a key with `auth.on_revoke:
// end`. And its votes end with it: an approval that had its quorum by them waits for others.
#include <map>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/log.h"
#include "orchestrator/runs/run_impl.h"
#include "policy/approval.h"
#include "store/rows/escalation_rows.h"

namespace cloister::orchestrator {

void RunService::lookAtCredentials() {
  impl_->lookAtCredentials();
}

// Of a ledger that cannot be read nothing is concluded: it is looked at again soon.
void RunService::Impl::lookAtCredentials() {
  std::map<std::string, bool> known;
  const auto stands = [&](const std::string& credential) {
    const auto [found, is_new] = known.try_emplace(credential, true);
    if (!is_new) return found->second;
    const auto holds = store::stillHolds(parts.store, credential);
    return found->second = holds || holds.error().code != Code::kDenied;
  };
  const auto runs = live;
  for (const auto& [id, run] : runs) {
    const bool ends = run->terminal || config.end_on_revoke;
    const bool over = run->terminal && run->ends_at != 0 && base::wallMicros() >= run->ends_at;
    const auto holds = [&] { return !over && stands(run->execution.principal.key_id); };
    if (!ends || run->lost_credential || holds()) continue;
    run->lost_credential = true;
    if (run->cause == Cause::kNone) run->cause = Cause::kCredential;  // before its session's end
    async::spawn(executor, endLive(run, Cause::kCredential));
  }
  if (config.end_on_revoke && credentials_looked) credentials_looked(stands);
}

Result<std::set<std::string>> RunService::Impl::revokedOf(const model::Escalation& e) const {
  std::set<std::string> revoked;
  for (const model::EscalationDecision& each : e.decisions) {
    const std::string& credential = each.by.key_id;
    const bool counts = each.approve && !each.revoked && !credential.empty();
    if (counts && TRY(store::isRevoked(parts.store, credential))) revoked.insert(credential);
  }
  return revoked;
}

Result<> RunService::Impl::strikeRevoked(model::Escalation& e) const {
  policy::strike(e, TRY(revokedOf(e)));
  return {};
}

Task<Result<model::Escalation>> RunService::Impl::withStandingVotes(model::Escalation e) {
  const auto self = shared_from_this();
  const std::set<std::string> revoked = CO_TRY(revokedOf(e));
  if (revoked.empty()) co_return e;
  if (e.status == model::EscalationStatus::kUsed) {  // for others, and for good
    policy::strike(e, revoked);
    co_return e;
  }
  store::EscalationChange change{
      .tenant = e.requester.tenant,
      .id = e.id,
      .apply = [revoked](model::Escalation& is) -> Result<model::AuditEvent> {
        if (is.status == model::EscalationStatus::kApproved ||
            is.status == model::EscalationStatus::kPending)
          policy::strike(is, revoked);
        return struckEvent(is);
      },
      .channels = channelsFor(parts.store, e.requester, config.escalation),
      .notification = "waits again",
      .notifications = config.escalation.bounds.notifications};
  auto struck = co_await ledger.write(store::changeEscalation, change);
  if (struck && escalated) escalated();
  co_return struck;
}

Task<Result<>> RunService::Impl::strikeNamed(const Live& run) {
  const auto self = shared_from_this();
  model::Principal who = run.execution.principal;
  who.roles = {};
  auto named = parts.store.escalations().get(store::Scope::of(who), run.request.approval);
  // useApproval() tells.
  if (!named || named->operation != model::operation::kRun) co_return Result<>{};
  CO_TRY(co_await withStandingVotes(*std::move(named)));
  co_return Result<>{};
}

Task<Result<std::optional<model::Escalation>>> RunService::Impl::released(LivePtr run,
                                                                          model::Escalation e) {
  const auto self = shared_from_this();
  e = CO_TRY(escalationNow(*run, e.id));
  const std::set<std::string> revoked = CO_TRY(revokedOf(e));
  const bool lacks = e.status == model::EscalationStatus::kPending;  // without those struck before
  if (revoked.empty() && !lacks) co_return std::optional(std::move(e));
  // It waits again, from before anyone can vote anew.
  const std::string id = run->execution.id;
  const bool shares = e.execution_id != id;
  blocked.insert(id);
  if (shares) follow(*run, e.id);
  auto judged = co_await withStandingVotes(std::move(e));
  const bool waits = judged && judged->status == model::EscalationStatus::kPending;
  if (waits || blocked.erase(id) == 0) co_return std::nullopt;
  if (shares) unfollow(run->execution.principal, id);
  if (!judged) co_return std::unexpected(std::move(judged).error());
  co_return std::optional(std::move(*judged));
}

// A temporary permission began with its approval: votes for it are judged no more.
Result<> RunService::Impl::strikeIfOpen(model::Escalation& e) const {
  const bool lets_go_on =
      e.operation == model::operation::kRun || e.operation == model::operation::kSession;
  const bool open = e.status == model::EscalationStatus::kPending ||
                    (e.status == model::EscalationStatus::kApproved && lets_go_on);
  return open ? strikeRevoked(e) : Result<>{};
}

// Of an approval that is about to be used, or was.
void RunService::Impl::strikeVotes(Live& run) const {
  if (auto struck = strikeRevoked(*run.approval); !struck) run.refusal = std::move(struck).error();
}

Result<> RunService::Impl::requesterStands(const model::Principal& requester) const {
  const auto holds = store::stillHolds(parts.store, requester);
  if (holds || holds.error().code != Code::kDenied) return holds;
  return fail(Code::kDenied,
              "the credential that asked for it, " + requester.key_id +
                  ", was revoked or has expired; ask anew with another credential",
              std::string(policy::approval::kRequester));
}

Result<> RunService::Impl::someoneStands(const model::Escalation& e) const {
  std::vector<model::Principal> who;
  if (sessions_waiting) who = sessions_waiting(e);
  std::set<std::string> waiting;
  if (blocked.contains(e.execution_id)) waiting.insert(e.execution_id);
  const auto others = followers.find({e.requester.tenant, e.id});
  if (others != followers.end()) waiting.insert(others->second.begin(), others->second.end());
  for (const std::string& id : waiting) {
    const auto run = live.find(id);
    if (run != live.end()) who.push_back(run->second->execution.principal);
  }
  Result<> stands;
  for (const model::Principal& each : who) {
    stands = requesterStands(each);
    if (stands || stands.error().code != Code::kDenied) return stands;
  }
  return stands;
}

model::RunError RunService::Impl::notApprovedFor(const model::Principal& requester,
                                                 const model::Escalation& e) const {
  model::RunError error = notApproved(e);
  const bool by_service = e.status == model::EscalationStatus::kDenied && !e.decisions.empty() &&
                          e.decisions.back().automatic;
  if (!by_service) return error;
  const auto stands = requesterStands(requester);
  if (!stands && stands.error().field == policy::approval::kRequester)
    error.details["reason"] = policy::approval::kRequester;
  return error;
}

}  // namespace cloister::orchestrator
