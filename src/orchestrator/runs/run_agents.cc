// SPDX-License-Identifier: Apache-2.0
// Runs and the sandboxes of agents: an agent's use of resources, and the results of refusals.
#include <algorithm>
#include <utility>

#include "orchestrator/core/stored_request.h"
#include "orchestrator/guard/agent_guard.h"
#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {

// Accepted runs count also before their start.
AgentUse RunService::Impl::usedBy(const model::Principal* principal) const {
  AgentUse used;
  for (const auto& [id, run] : live) {
    if (!run->execution.session_id.empty()) continue;        // its session counts
    if (blocked.contains(id)) continue;                      // may never run
    if (model::isTerminal(run->execution.status)) continue;  // as whoever asked may know
    if (!AgentUse::isOf(run->execution.principal, principal)) continue;
    used.add(run->facts.limits, run->execution.usage);
  }
  if (const auto sessions = neighbour.lock()) sessions->addUse(principal, used);
  return used;
}

policy::Resources RunService::reservedBy(const model::Principal& agent) const {
  return impl_->usedBy(&agent).reserved;
}

policy::Resources RunService::measuredOf(const model::Principal& agent) const {
  return impl_->usedBy(&agent).measured;
}

policy::Resources RunService::reservedByAll() const {
  return impl_->usedBy(nullptr).reserved;
}

policy::Resources RunService::measuredOfAll() const {
  return impl_->usedBy(nullptr).measured;
}

Result<AgentJudgement> RunService::Impl::heldBack(const model::Principal& principal,
                                                  Asked& asked) const {
  if (parts.agents == nullptr) return AgentJudgement{};
  const auto used = usedBy(&principal).reserved;
  if (!asked.home) return parts.agents->judgeRun(principal, asked.request, nullptr, used);
  const Within session = asked.home->within();
  return parts.agents->judgeRun(principal, asked.request, &session, used);
}

// The session may have another sandbox since the first check.
Result<> RunService::Impl::mayEnter(const Live& run) const {
  if (parts.agents == nullptr || !run.home) return {};
  const auto denied = TRY(parts.agents->tooOpen(run.execution.principal, run.home->within()));
  if (!denied) return {};
  return std::unexpected(toError(*denied, "running in a session"));
}

// Rules judge commands and files; rules cannot judge a program's input.
Result<> RunService::Impl::mayType(const model::Principal& by, const Live& run) const {
  const bool own = by.sameAgent(run.execution.principal);
  if (own || parts.agents == nullptr || !TRY(parts.agents->heldFor(by))) return {};
  return fail(Code::kDenied,
              "sending input: the program is another agent's, and what it is told cannot be held "
              "to the rules of agent " +
                  by.agent + "; run one of your own");
}

Result<std::optional<AgentRefusal>> RunService::Impl::heldBackNow(
    Live& run, const store::Pending& pending) const {
  if (parts.agents == nullptr) return std::nullopt;
  const base::json::object stored = TRY(parseStored(pending.request_json));
  model::ExecRequest request;
  base::ObjectReader reader(stored, "");
  TRY(mayEnter(run));
  TRY(model::readRunRequest(reader, storedBounds(), request.run));
  const bool in_session = run.home != nullptr;
  if (in_session) request.cwd = TRY(reader.text("cwd")).value_or("");
  const model::Limits approved = request.run.limits;
  const model::Principal& by = run.execution.principal;
  policy::Resources used = usedBy(&by).reserved;
  if (!in_session) {  // counts the run itself once
    used.memory_bytes -= std::min(used.memory_bytes, run.facts.limits.memory_bytes);
    used.cpu_millis -= std::min(used.cpu_millis, run.facts.limits.cpu_millis);
    used.running -= std::min(used.running, 1U);
  }
  const model::Escalation* approval = run.approval ? &*run.approval : nullptr;
  std::optional<Within> session;
  if (in_session) session.emplace(run.home->within());
  AgentJudgement judged =
      TRY(parts.agents->judgeRun(by, request, session ? &*session : nullptr, used, approval));
  (in_session ? run.opened : run.held) = std::move(judged.held);
  run.by_rules = std::move(judged.by_rules);
  if (judged.refusal || request.run.limits == approved) return std::move(judged.refusal);
  return fail(Code::kDenied, "the agent may have less of this machine now than was approved");
}

// The waiting caller records the end.
Task<Result<>> RunService::Impl::refuseBlocked(LivePtr run, AgentRefusal refusal) {
  const auto self = shared_from_this();
  applyDenial(run->execution, refusal.denied);
  for (auto& [name, value] : refusal.details)
    run->execution.error->details[name] = std::move(value);
  noteRefusal(*run);
  refusal.violation.subject = run->execution.id;
  CO_TRY(co_await control->ledger.write(store::addViolation, std::move(refusal.violation),
                                        parts.agents->lowering(), run->execution.principal));
  co_return fail(Code::kDenied, refusal.denied.reason);
}

Task<Result<model::Execution>> RunService::Impl::recordRefusal(LivePtr run,
                                                               store::NewExecution record,
                                                               HomeRefusal refusal) {
  const auto self = shared_from_this();
  const std::string id = run->execution.id;
  model::Execution recorded = CO_TRY(co_await recordDenial(
      run, std::move(record), std::move(refusal.denied), std::move(refusal.details)));
  if (recorded.id != id || !refusal.violation) co_return recorded;
  refusal.violation->subject = id;
  CO_TRY(co_await control->ledger.write(store::addViolation, *std::move(refusal.violation),
                                        parts.agents->lowering(), std::move(refusal.violator)));
  co_return recorded;
}

Task<Result<model::Execution>> RunService::Impl::recordViolation(LivePtr run,
                                                                 store::NewExecution record,
                                                                 AgentRefusal refusal) {
  const auto self = shared_from_this();
  const model::Principal by = run->execution.principal;
  const std::string id = run->execution.id;
  model::Execution recorded = CO_TRY(co_await recordDenial(
      run, std::move(record), std::move(refusal.denied), std::move(refusal.details)));
  if (recorded.id != id) co_return recorded;  // an earlier execution with the same idempotency key
  refusal.violation.subject = id;
  CO_TRY(co_await control->ledger.write(store::addViolation, std::move(refusal.violation),
                                        parts.agents->lowering(), by));
  co_return recorded;
}

}  // namespace cloister::orchestrator
