// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/governance/network_asks.h"

#include <algorithm>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/log.h"
#include "model/shown_text.h"
#include "orchestrator/guard/approval.h"
#include "orchestrator/guard/votes.h"
#include "policy/agent/validate.h"
#include "store/rows/agents.h"
#include "store/rows/escalation_rows.h"

namespace cloister::orchestrator {
namespace {

using model::Escalation;
using model::EscalationStatus;
using Attempt = wire::egress::Wanted;

constexpr size_t kMostProgram = 200;
constexpr size_t kMostRule = 200;

std::string destinationOf(const std::string& host, uint16_t port) {
  return host + ":" + std::to_string(port);
}

// The destination as an entry of a plan; kInvalid for an address, which no rule can name.
Result<model::NetworkEntry> entryOf(const Attempt& wanted) {
  model::NetworkEntry entry;
  entry.name = TRY(model::hostName(wanted.host));
  if (wanted.port == 0) return fail(Code::kInvalid, "a destination needs a port");
  entry.ports = {wanted.port};
  entry.protocol =
      model::protocolFromName(wanted.protocol).value_or(model::protocolOfPort(wanted.port));
  return entry;
}

std::string displayOf(const Escalation& e, const Attempt& wanted, const DoorOwner& owner) {
  std::string text = "network " + e.subject + " (" + model::safeText(wanted.protocol, 16) + ")\n";
  text += "asked by: " + (owner.execution_id.empty() ? "a program of the session"
                                                     : "execution " + owner.execution_id);
  if (!owner.session_id.empty()) text += " in session " + owner.session_id;
  text += "\nprogram: " + (e.program.empty() ? "not known" : e.program);
  text += "\nrefused by: " + (e.rule.empty() ? "no rule names it" : "rule " + e.rule);
  text += wanted.waits ? "\nthe connection waits for the decision" : "";
  return text + "\nan approval opens all of this destination's port: every method and path";
}

}  // namespace

// --- questions

void NetworkAsks::wanted(const Attempt& wanted, const DoorOwner& owner) {
  const auto entry = entryOf(wanted);
  if (!entry) return;
  Destinations& of_door = asked_[wanted.permit];
  const std::pair key(entry->name, wanted.port);
  if (of_door.contains(key)) return;
  if (of_door.size() >= kMostOfDoor || asking_ >= kMostAtOnce) {
    base::log(base::Level::kWarn, "a refused destination is not escalated: too many",
              {{"subject", owner.subject()}});
    return;
  }
  of_door[key] = {.tenant = owner.principal.tenant, .entry = *entry, .escalation = {}};
  async::spawn(control_->executor, ask(shared_from_this(), wanted, owner));
}

Task<void> NetworkAsks::ask(std::shared_ptr<NetworkAsks> self, Attempt wanted, DoorOwner owner) {
  self->asking_++;
  const auto made = co_await self->escalate(wanted, owner);
  self->asking_--;
  const auto door = self->asked_.find(wanted.permit);
  if (door == self->asked_.end()) co_return;  // closed meanwhile
  const auto entry = entryOf(wanted);
  const auto asked = door->second.find({entry ? entry->name : "", wanted.port});
  if (asked == door->second.end()) co_return;
  if (made) {
    asked->second.escalation = *made;
    co_return;
  }
  door->second.erase(asked);
  base::log(base::Level::kWarn, "a refused destination is not escalated",
            {{"subject", owner.subject()}, {"reason", made.error().message}});
}

Task<Result<std::string>> NetworkAsks::escalate(const Attempt& wanted, const DoorOwner& owner) {
  const auto asks = co_await approvals_->beginAsking(owner.principal);
  Escalation e = CO_TRY(drawUp(wanted, owner));
  if (std::string alike = CO_TRY(pendingLike(e)); !alike.empty()) co_return alike;
  CO_TRY(approvals_->mayAskByHand(owner.principal));
  const EscalationConfig& config = approvals_->escalationConfig();
  model::AuditEvent event = requestedEvent(e);
  event.details["automatic"] = false;
  store::NewEscalation asked{.escalation = std::move(e),
                             .event = std::move(event),
                             .channels = channelsFor(control_->store, owner.principal, config),
                             .bounds = config.bounds};
  const Escalation made =
      CO_TRY(co_await control_->ledger.write(store::addEscalation, std::move(asked)));
  approvals_->announce();
  co_return made.id;
}

Result<Escalation> NetworkAsks::drawUp(const Attempt& wanted, const DoorOwner& owner) const {
  const EscalationConfig& config = approvals_->escalationConfig();
  Escalation e;
  e.operation = model::operation::kNetwork;
  e.subject = destinationOf(wanted.host, wanted.port);
  e.reason = "a program was refused " + e.subject;
  e.requester = owner.principal;
  e.requester_person = TRY(personOf(control_->store, owner.principal));
  e.session_id = owner.session_id;
  e.rule = model::safeText(wanted.rule, kMostRule);
  e.program = model::safeText(wanted.program, kMostProgram);
  e.display = displayOf(e, wanted, owner);
  e.roles = config.roles;
  e.grant_us = config.grant_us;
  e.created_at = base::wallMicros();
  e.expires_at = e.created_at + config.ttl_us;
  const auto rules =
      agents_ == nullptr ? nullptr : agents_->rulesOf(owner.principal).value_or(nullptr);
  if (rules && rules->timeout_seconds)
    e.expires_at = e.created_at + static_cast<int64_t>(*rules->timeout_seconds) * 1'000'000;
  return e;
}

// The id of a pending escalation for the same destination by the same agent and person; "" for
// none.
Result<std::string> NetworkAsks::pendingLike(const Escalation& wanted) const {
  constexpr uint32_t kMost = 100;
  const model::Principal& by = wanted.requester;
  if (by.agent.empty()) return std::string();
  store::EscalationQuery query;
  query.status = EscalationStatus::kPending;
  query.agent = by.agent;
  query.limit = kMost;
  const auto pending =
      TRY(control_->store.escalations().list(store::Scope::ofTenant(by.tenant), query));
  const auto same = [&](const Escalation& e) {
    return e.operation == wanted.operation && e.subject == wanted.subject &&
           e.requester_person == wanted.requester_person && e.requester.app == by.app &&
           e.requester.user == by.user;
  };
  const auto found = std::ranges::find_if(pending, same);
  return found == pending.end() ? std::string() : found->id;
}

// --- answers

std::vector<model::PlanRule> NetworkAsks::granted(const std::string& permit) {
  std::vector<model::PlanRule> rules;
  const auto door = asked_.find(permit);
  if (door == asked_.end()) return rules;
  const int64_t now = base::wallMicros();
  for (const auto& [destination, asked] : door->second) {
    if (asked.escalation.empty()) continue;
    auto e =
        control_->store.escalations().get(store::Scope::ofTenant(asked.tenant), asked.escalation);
    // What cannot be read, grants nothing.
    if (!e || !strikeIfOpen(control_->store, *e)) continue;
    if (e->status != EscalationStatus::kApproved || e->grant_expires_at <= now) continue;
    model::PlanRule rule{.entry = asked.entry, .rule = e->id};
    rule.entry.why = "approved: " + e->id;
    rules.push_back(std::move(rule));
  }
  return rules;
}

// --- violations

void NetworkAsks::refused(const DoorOwner& owner, const wire::egress::Attempts& attempt) {
  control_->metrics.denied("network");
  if (agents_ == nullptr || owner.principal.agent.empty()) return;
  const auto rules = agents_->rulesOf(owner.principal);
  if (!rules || !*rules) return;
  model::Violation violation;
  violation.id = base::newId("vio");
  violation.tenant = owner.principal.tenant;
  violation.agent = owner.principal.agent;
  violation.at = base::wallMicros();
  violation.level = (*rules)->level.name;
  violation.operation = "network";
  violation.what = model::shownText(destinationOf(attempt.host, attempt.port));
  violation.outcome = policy::kindName(policy::Validation::Kind::kDenied);
  violation.rule = model::shownText(attempt.rule);
  violation.reason = model::shownText(attempt.reason);
  violation.subject = owner.subject();
  async::spawn(control_->executor, note(shared_from_this(), std::move(violation), owner.principal));
}

Task<void> NetworkAsks::note(std::shared_ptr<NetworkAsks> self, model::Violation violation,
                             model::Principal by) {
  const auto written = co_await self->control_->ledger.write(
      store::addViolation, std::move(violation), self->agents_->lowering(), by);
  if (written) {
    self->control_->metrics.networkViolation();
  } else {
    base::log(base::Level::kError, "a violation was not recorded",
              {{"agent", by.agent}, {"reason", written.error().message}});
  }
}

}  // namespace cloister::orchestrator
