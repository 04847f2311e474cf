// SPDX-License-Identifier: Apache-2.0
// Ends work whose credential was revoked or has expired: programs with a terminal always, also
// those of tokens and certificates; sessions and other programs of a key with `auth.on_revoke:
// end`. Strikes the credential's votes, too: an approval without its quorum then waits for other
// votes.
#include <map>

#include "async/awaiting.h"
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

// An unreadable ledger proves nothing: the next check follows soon.
void RunService::Impl::lookAtCredentials() {
  std::map<std::string, bool> known;
  const auto stands = [&](const std::string& credential) {
    const auto [found, is_new] = known.try_emplace(credential, true);
    if (!is_new) return found->second;
    const auto holds = store::stillHolds(control->store, credential);
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
    async::spawn(control->executor, endLive(run, Cause::kCredential));
  }
  const auto sessions = neighbour.lock();
  if (config.end_on_revoke && sessions) sessions->lookAtCredentials(stands);
}

Task<Result<model::Escalation>> RunService::Impl::withStandingVotes(model::Escalation e) {
  const auto self = shared_from_this();
  const std::set<std::string> revoked = CO_TRY(revokedOf(control->store, e));
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
      .channels = channelsFor(control->store, e.requester, config.escalation),
      .notification = "waits again",
      .notifications = config.escalation.bounds.notifications};
  auto struck = co_await Ledger(control->store).write(store::changeEscalation, change);
  if (struck) announce();
  co_return struck;
}

Task<Result<>> RunService::Impl::strikeNamed(const Live& run) {
  const auto self = shared_from_this();
  model::Principal who = run.execution.principal;
  who.roles = {};
  auto named = control->store.escalations().get(store::Scope::of(who), run.request.approval);
  // useApproval() reports the error.
  if (!named || named->operation != model::operation::kRun) co_return Result<>{};
  CO_TRY(co_await withStandingVotes(*std::move(named)));
  co_return Result<>{};
}

Task<Result<std::optional<model::Escalation>>> RunService::Impl::released(LivePtr run,
                                                                          model::Escalation e) {
  const auto self = shared_from_this();
  e = CO_TRY(escalationNow(*run, e.id));
  const std::set<std::string> revoked = CO_TRY(revokedOf(control->store, e));
  const bool lacks = e.status == model::EscalationStatus::kPending;  // without votes struck before
  if (revoked.empty() && !lacks) co_return std::optional(std::move(e));
  // The run waits again, before anyone can vote again.
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

// For an approval before or after its use.
void RunService::Impl::strikeVotes(Live& run) const {
  if (auto struck = strikeRevoked(control->store, *run.approval); !struck)
    run.refusal = std::move(struck).error();
}

Result<> RunService::Impl::someoneStands(const model::Escalation& e) const {
  std::vector<model::Principal> who;
  if (const auto sessions = neighbour.lock()) who = sessions->waitingFor(e);
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
    stands = requesterStands(control->store, each);
    if (stands || stands.error().code != Code::kDenied) return stands;
  }
  return stands;
}

}  // namespace cloister::orchestrator
