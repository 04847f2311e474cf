// SPDX-License-Identifier: Apache-2.0
// The network of a run: the door of its own sandbox, or of its session's, and what the program did
// with it. A run without a network asks nothing of cloister-egress.
#include <algorithm>
#include <utility>

#include "base/crypto.h"
#include "orchestrator/core/network.h"
#include "orchestrator/runs/network_hint.h"
#include "orchestrator/runs/run_impl.h"
#include "policy/secret_grants.h"

namespace cloister::orchestrator {
namespace {

// Programs of a session use the session's door, except in a fresh sandbox.
bool hasOwnSandbox(const Live& run) {
  return !run.home || run.request.fresh;
}

std::string doorOf(const Live& run) {
  return hasOwnSandbox(run) ? run.door : run.home->door();
}

}  // namespace

void RunService::Impl::keepPlan(Live& run, std::optional<model::NetworkPlan> plan,
                                const std::string& permit_id) {
  if (!hasOwnSandbox(run)) return;
  run.plan = std::move(plan);
  if (run.plan) run.plan->permit = permit_id;  // of a decision without a permit: ""
  run.plan_sha256 = run.plan ? base::sha256Hex(model::encodePlan(*run.plan)) : "";
}

Task<Result<>> RunService::Impl::recordPlan(Live& run) {
  model::AuditEvent event{.action = "network.planned",
                          .subject = run.execution.id,
                          .principal = run.execution.principal,
                          .details = {{"permit", run.execution.provenance.permit_id},
                                      {"generation", 1},
                                      {"plan_sha256", run.plan_sha256},
                                      {"policy", run.execution.provenance.policy_id},
                                      {"why", "policy"}}};
  co_return co_await control->ledger.write(store::appendEvent, std::move(event));
}

Task<Result<>> RunService::Impl::openDoor(LivePtr run) {
  if (!run->plan) co_return Result<>{};
  if (control->network == nullptr) {
    co_return fail(Code::kUnsupported, "opening the network: this service has none");
  }
  model::NetworkPlan plan = *std::exchange(run->plan, std::nullopt);
  run->weakened_by_secrets = policy::weakenedBySecrets(plan);
  std::string permit = plan.permit;
  DoorOwner owner{.principal = run->execution.principal,
                  .execution_id = run->execution.id,
                  .session_id = run->execution.session_id};
  // Weak, because a door is closed by its run.
  Network::Again again = [weak = weak_from_this(),
                          of = std::weak_ptr(run)]() -> Task<std::optional<model::NetworkPlan>> {
    const auto self = weak.lock();
    const LivePtr run = of.lock();
    if (!self || !run) co_return std::nullopt;
    co_return co_await self->planNow(run);
  };
  run->inspected = std::ranges::any_of(
      plan.rules, [](const model::PlanRule& rule) { return rule.entry.inspect; });
  trace::Step opening = run->traced.within("network.open");
  CO_TRY(opening.endedBy(co_await control->network->open(std::move(plan), std::move(owner),
                                                         std::move(again), doorSecretsOf(*run))));
  run->door = std::move(permit);
  co_return Result<>{};
}

// The plan is in force by now, as a rule: the node asks for the door only behind it.
Task<Result<>> RunService::Impl::confirmDoor(Live& run) {
  if (run.door.empty()) co_return Result<>{};
  run.certificate = CO_TRY(co_await control->network->confirm(run.door));
  co_return Result<>{};
}

// By the policy and the agent's rules in force. An approval of the run stays good for its sandbox.
Task<std::optional<model::NetworkPlan>> RunService::Impl::planNow(LivePtr run) {
  Held held = run->held;
  if (parts.agents != nullptr) {
    const auto now = held_lately.of(*parts.agents, run->execution.principal);
    if (!now) co_return std::nullopt;
    held = *now;
  }
  const Subject as = subjectOf(*run);
  const Subject subject{.operation = as.operation,
                        .request = as.request,
                        .principal = as.principal,
                        .risk_facts = as.risk_facts,
                        .held = held,
                        .language = as.language,
                        .execution_id = as.execution_id,
                        .session_id = as.session_id,
                        .inside = as.inside,
                        .spec_sha256 = as.spec_sha256,
                        .prestart = as.prestart,
                        .brokered = as.brokered};
  const Ruling ruling = co_await control->permits.rule(subject);
  const bool approved = run->approval.has_value();
  const policy::Decision decision = control->permits.judge(
      ruling, subject, [approved](const policy::NeedsApproval* /*wanted*/) { return approved; });
  if (policy::refusalOf(decision)) co_return std::nullopt;
  auto plan = control->permits.network(ruling, subject, run->execution.provenance.permit_id);
  co_return plan ? std::optional(*std::move(plan)) : std::nullopt;
}

void RunService::Impl::closeDoor(Live& run) const {
  if (run.door.empty()) return;
  control->network->close(std::exchange(run.door, {}));
}

Task<void> RunService::Impl::beginUse(LivePtr run) const {
  const std::string door = doorOf(*run);
  if (door.empty() || hasOwnSandbox(*run)) co_return;
  if (auto use = co_await control->network->use(door)) run->network_before = *std::move(use);
}

Task<void> RunService::Impl::noteUse(LivePtr run) const {
  const std::string door = doorOf(*run);
  if (!door.empty() && run->started) {
    const auto use = co_await control->network->use(door);
    auto hint = std::move(run->execution.network.hint);
    if (use) {
      run->execution.network = model::useSince(*use, run->network_before);
      redactUse(*run);
    } else {
      hint = "its use of the network is not known: " + use.error().message;
    }
    if (hint) run->execution.network.hint = std::move(hint);
  }
  run->use_noted = true;
  run->settled.notify();
}

void RunService::Impl::noteHint(Live& run) {
  if (!run.recorder || run.request.network.tier != "none") return;
  Recorder& recorder = *run.recorder;
  run.execution.network.hint = networkHint(
      run.execution,
      {.err = recorder.tail(model::Stream::kStderr), .out = recorder.tail(model::Stream::kStdout)});
}

}  // namespace cloister::orchestrator
