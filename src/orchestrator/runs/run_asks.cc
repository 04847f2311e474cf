// SPDX-License-Identifier: Apache-2.0
// Programs refused by their agent's sandbox that a person may allow. Such programs are blocked like
// programs with an approval wanted by policy (blocking.cc), and continue with the approved
// exceptions alone. Alike programs of an agent wait for one escalation together.
#include <algorithm>
#include <utility>

#include "base/log.h"
#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {

using model::Escalation;
using model::EscalationStatus;

Result<Escalation> RunService::Impl::escalationNow(const Live& run, const std::string& id) const {
  const std::string& tenant = run.execution.principal.tenant;
  return control->store.escalations().get(store::Scope::ofTenant(tenant), id);
}

Result<Escalation> RunService::Impl::sharedApproval(const Live& run, const std::string& id) const {
  Escalation e = TRY(escalationNow(run, id));
  TRY(strikeRevoked(control->store,
                    e));  // a used approval stays used, and waits for no further votes
  e.execution_id = run.execution.id;
  if (e.status != EscalationStatus::kUsed) return e;
  e.status = EscalationStatus::kApproved;
  e.ended_at = 0;
  return e;
}

Result<std::optional<Escalation>> RunService::Impl::approvalNow(const Live& run,
                                                                const Escalation& asked) const {
  const bool shares = asked.execution_id != run.execution.id;
  Escalation e = TRY(shares ? sharedApproval(run, asked.id) : escalationNow(run, asked.id));
  TRY(strikeRevoked(control->store, e));
  if (e.status == EscalationStatus::kPending) return std::nullopt;
  return e;
}

// If policy also wants an approval, policy names the approvers.
policy::NeedsApproval RunService::Impl::wantedFor(const Live& run,
                                                  const policy::NeedsApproval* by_policy) const {
  const AgentRefusal& refused = *run.asks;
  const EscalationConfig& by_hand = config.escalation;
  policy::NeedsApproval wanted =
      by_policy != nullptr ? *by_policy
                           : policy::NeedsApproval{.rule = refused.denied.rule,
                                                   .reason = refused.denied.reason,
                                                   .approver_roles = by_hand.roles,
                                                   .quorum = 1,
                                                   .ttl_seconds = by_hand.ttl_us / 1'000'000};
  if (by_policy != nullptr) wanted.reason = refused.denied.reason + "; " + by_policy->reason;
  if (refused.timeout_seconds && by_policy == nullptr)
    wanted.ttl_seconds = static_cast<int64_t>(*refused.timeout_seconds);
  return wanted;
}

// One after another: a request that the ledger has just taken must count once. Principals without
// an agent's name share no bound.
Task<std::shared_ptr<void>> RunService::Impl::beginAsking(model::Principal by) {
  const auto self = shared_from_this();
  if (by.agent.empty()) co_return nullptr;
  const std::pair key(by.tenant, by.agent);
  while (asking.contains(key))
    co_await control->changed.wait();
  asking.insert(key);
  co_return std::shared_ptr<void>(nullptr, [self, key](void*) {
    self->asking.erase(key);
    self->control->changed.notify();
  });
}

Result<std::vector<Escalation>> RunService::Impl::pendingOf(const model::Principal& by) const {
  store::EscalationQuery query;
  query.status = EscalationStatus::kPending;
  query.agent = by.agent;
  query.limit = config.escalation.pending_per_agent;
  return control->store.escalations().list(store::Scope::ofTenant(by.tenant), query);
}

Result<> RunService::Impl::mayAsk(size_t waiting) const {
  const uint32_t most = config.escalation.pending_per_agent;
  if (waiting < most) return {};
  return fail(Code::kQuota,
              "asking for approval: " + std::to_string(most) +
                  " requests of this agent wait already (" + kPendingOfAgent + "); " + kDecideOne,
              kPendingOfAgent);
}

// Principals without an agent's name share no bound.
Result<> RunService::Impl::mayAskByHand(const model::Principal& by) const {
  if (by.agent.empty()) return {};
  auto may = mayAsk(TRY(pendingOf(by)).size());
  if (!may) may.error().field.clear();  // no member of the request is wrong
  return may;
}

Result<std::optional<Escalation>> RunService::Impl::waitingLike(const Alike& asked) const {
  if (asked.by.agent.empty()) return std::nullopt;
  const auto pending = TRY(pendingOf(asked.by));
  std::optional<Escalation> alike;
  for (const Escalation& e : pending) {
    const model::Principal& who = e.requester;
    const bool same =
        who.app == asked.by.app && who.user == asked.by.user && e.requester_person == asked.person;
    const bool waits = !e.execution_id.empty() || e.operation == model::operation::kSession;
    if (same && waits && e.operation == asked.operation && e.digest == asked.digest &&
        e.lifts == asked.lifts)
      alike = e;
  }
  TRY(mayAsk(alike ? waitingFor(*alike) : pending.size()));
  return alike;
}

uint32_t RunService::Impl::waitingFor(const Escalation& e) const {
  const auto others = followers.find({e.requester.tenant, e.id});
  size_t waiting = blocked.contains(e.execution_id) ? 1 : 0;
  if (others != followers.end()) waiting += others->second.size();
  if (const auto sessions = neighbour.lock()) waiting += sessions->waitingFor(e).size();
  return static_cast<uint32_t>(waiting);
}

// Approves by the table of safe operations, if the agent's settings allow approval by a rule.
void RunService::Impl::approveIfSafe(const Live& run, store::NewEscalation& made) const {
  Escalation& e = made.escalation;
  if (run.asks->needs_person || run.execution.principal.agent.empty()) return;
  const bool all = areSafeOperations(e.lifts, config.escalation.safe_operations);
  if (!all) return;
  policy::approveByRule(e, safeReason(run.asks->safe_by), e.created_at);
  made.approval = ruledEvent(e);
}

Task<void> RunService::Impl::noteViolation(LivePtr run) {
  const auto self = shared_from_this();
  model::Violation violation = run->asks->violation;
  violation.subject = run->execution.id;
  const auto noted =
      co_await control->ledger.write(store::addViolation, std::move(violation),
                                     parts.agents->lowering(), run->execution.principal);
  if (noted) co_return;
  base::log(base::Level::kError, "a violation was not recorded",
            {{"execution", run->execution.id}, {"reason", noted.error().message}});
}

void RunService::Impl::follow(const Live& run, const std::string& escalation) {
  followers[{run.execution.principal.tenant, escalation}].insert(run.execution.id);
}

std::vector<std::string> RunService::Impl::unfollow(const model::Principal& of,
                                                    const std::string& execution_id) {
  std::vector<std::string> left;
  for (auto next = followers.begin(); next != followers.end();) {
    auto& [of_whom, waiting] = *next;
    const bool was = of_whom.first == of.tenant && waiting.erase(execution_id) > 0;
    if (was && waiting.empty()) {
      left.push_back(of_whom.second);
      next = followers.erase(next);
    } else {
      ++next;
    }
  }
  return left;
}

}  // namespace cloister::orchestrator
