// SPDX-License-Identifier: Apache-2.0
// Runs that need approval: blocked without a sandbox or a place in the queue, and back into the
// queue after the approval. The escalation in the ledger is the truth, and the execution follows,
// so a crash at any point leaves nothing undecided.
#include <algorithm>
#include <utility>

#include "async/awaiting.h"
#include "async/spawn.h"
#include "base/crypto.h"
#include "base/log.h"
#include "model/record_times.h"
#include "orchestrator/core/stored_request.h"
#include "orchestrator/runs/run_impl.h"
#include "orchestrator/runs/workspace_list.h"
#include "policy/approval.h"
#include "store/rows/escalation_rows.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

using model::Escalation;
using model::Execution;

std::function<Result<model::AuditEvent>(Escalation&)> spending(const policy::Use& use) {
  return [use](Escalation& e) -> Result<model::AuditEvent> {
    TRY(policy::use(e, use));
    return usedEvent(e);
  };
}

// The escalation's own run has ended; another waiting run uses the approval.
std::function<Result<model::AuditEvent>(Escalation&)> adopting(const policy::Use& use) {
  return [use](Escalation& e) -> Result<model::AuditEvent> {
    if (e.status == model::EscalationStatus::kUsed) {
      return fail(Code::kConflict, "using " + e.id + ": another run has",
                  std::string(policy::approval::kUsed));
    }
    e.execution_id = use.execution_id;
    TRY(policy::use(e, use));
    return usedEvent(e);
  };
}

constexpr char kSendAtOnce[] =
    "leave out keep_input and tty, and send all of the program's input with the request";

// A person approves the run's present content; later input would be unseen.
Error laterInput(const Live& run) {
  return {Code::kInvalid,
          std::string("asking for approval: the program takes input later, which nobody can look "
                      "at before; ") +
              kSendAtOnce,
          run.terminal ? "tty" : "keep_input"};
}

// Removes the approval from the advice: no request for approval helps before the `mitigation`.
void noteUnasked(AgentRefusal& refused, const Error& why, const char* mitigation) {
  refused.denied.reason += "; " + why.message;
  const base::json::value* other = refused.details.if_contains("mitigation");
  refused.denied.remedy =
      other != nullptr && other->is_string() ? "or " + std::string(other->get_string()) : "";
  refused.details["escalation_available"] = false;
  refused.details["human_approval"] = false;
  if (base::json::array* all = refused.details["mitigations"].if_array())
    all->insert(all->begin(), base::json::value(mitigation));
}

}  // namespace

model::RunRequest policyPartsOf(const model::RunRequest& request) {
  model::RunRequest parts;
  parts.language = request.language;
  if (!std::holds_alternative<std::monostate>(request.command)) parts.command = std::string();
  parts.deps = request.deps;
  parts.limits = request.limits;
  parts.named_limits = request.named_limits;
  parts.network = request.network;
  parts.secrets = request.secrets;
  parts.runtime = request.runtime;
  parts.image = request.image;
  parts.tier = request.tier;
  parts.artifacts = request.artifacts;
  parts.metadata = request.metadata;
  parts.nested = request.nested;
  parts.fresh = request.fresh;
  parts.approval = request.approval;
  return parts;
}

void RunService::Impl::noteRefusal(Live& run) {
  if (!run.refusal || !run.execution.error) return;
  if (!run.refusal->field.empty()) run.execution.error->details["reason"] = run.refusal->field;
  const std::string& id = run.approval ? run.approval->id : run.request.approval;
  if (!id.empty()) run.execution.error->details["escalation_id"] = id;
}

// Uses up the named approval with the acceptance, or refuses the request.
Result<> RunService::Impl::useApproval(Live& run, store::NewExecution& record) const {
  const std::string& id = run.request.approval;
  if (!control->nodes.connected()) {
    return fail(Code::kUnavailable, "using " + id + ": no node is connected to run it on");
  }
  auto found = [&]() -> Result<Escalation> {
    // Only the agent's own approvals, also for an administrator, who asks in its own name.
    model::Principal who = run.execution.principal;
    who.roles = {};
    Escalation e = TRY(control->store.escalations().get(store::Scope::of(who), id));
    run.bound = TRY(boundOf(record.request_json, run.execution.session_id, control->languages));
    TRY(strikeRevoked(control->store, e));
    auto used = policy::use(e, useOf(run));
    if (used) return e;
    return std::unexpected(explained(run, e, std::move(used).error(), record.request_json));
  }();
  if (!found) {
    run.refusal = std::move(found).error();
    if (run.refusal->code == Code::kNotFound) run.refusal->field = policy::approval::kMismatch;
    return {};
  }
  run.approval = *std::move(found);
  record.approval = store::EscalationChange{.tenant = run.execution.principal.tenant,
                                            .id = id,
                                            .apply = spending(useOf(run)),
                                            .channels = {},
                                            .notification = ""};
  return {};
}

// The record for the approver. The image is a part of the record, so an image must be known.
Result<> RunService::Impl::wantApproval(Live& run, store::NewExecution& record,
                                        const policy::NeedsApproval& wanted) const {
  if (!control->nodes.connected()) {
    return fail(Code::kUnavailable,
                "asking for approval: no node is connected, so what would run is not known");
  }
  Execution& execution = run.execution;
  // Approvers are not asked about a run that can never start.
  if (execution.session_id.empty()) TRY(checkDisk(run.facts.limits));
  if (imageDigestOf(run).empty()) {
    return fail(Code::kUnavailable,
                "asking for approval: the node has not said yet which image it has; try again");
  }
  run.bound = TRY(boundNow(run, record.request_json));
  const std::string person = TRY(personOf(control->store, execution.principal));
  std::optional<Escalation> alike;
  if (run.asks) {
    alike = TRY(waitingLike({.by = execution.principal,
                             .person = person,
                             .operation = model::operation::kRun,
                             .digest = digestOf(run.bound, imageDigestOf(run)),
                             .lifts = run.asks->wants}));
  }
  const Wanted asked{
      .requester = execution.principal,
      .person = person,
      .by_policy = wanted,
      .execution_id = execution.id,
      .session_id = execution.session_id,
      .lifts = run.asks ? run.asks->wants : std::vector<model::WantedOperation>(),
      .channels = channelsFor(control->store, execution.principal, config.escalation),
      .now = base::wallMicros()};
  execution.error = approvalError(wanted, "it runs once it is approved");
  if (alike) {
    execution.error->details["escalation_id"] = alike->id;
    execution.error->message += " (" + alike->id + ")";
  } else {
    record.escalation =
        escalationFor(asked, record.request_json, run.bound, imageDigestOf(run), config.escalation);
    if (run.workspace) {
      store::NewEscalation& made = *record.escalation;
      made.workspace_json = listOf(*run.workspace, record.request_json);
      made.escalation.workspace_sha256 = base::sha256Hex(made.workspace_json);
    }
  }
  if (run.asks) {
    for (const auto& [name, value] : run.asks->details)
      execution.error->details[name] = value;
    if (record.escalation) approveIfSafe(run, *record.escalation);
  }
  run.facts.rule = wanted.rule;
  execution.status = model::Status::kBlocked;
  record.execution = execution;
  return {};
}

// Bounded like the queue, with the same part kept for tenants with few waiting runs.
bool RunService::Impl::mayBlock(const std::string& tenant) const {
  FairShare waiting(control->config.fairness, 1);
  for (const std::string& id : blocked)
    waiting.take(live.at(id)->execution.principal.tenant, 1);
  return waiting.has(tenant, 1, config.queue);
}

Task<Result<Execution>> RunService::Impl::askApproval(LivePtr run, store::NewExecution record,
                                                      policy::NeedsApproval wanted) {
  const auto self = shared_from_this();
  if (run->spec.keep_input || run->terminal) {
    const Error why = laterInput(*run);
    if (!run->asks) co_return earlierOr(*run, std::move(record), why);
    AgentRefusal refused = *std::exchange(run->asks, {});
    noteUnasked(refused, why, kSendAtOnce);
    co_return co_await recordViolation(run, std::move(record), std::move(refused));
  }
  if (!mayBlock(run->execution.principal.tenant)) {
    Error full{Code::kQuota, "asking for approval: too many runs wait for one", ""};
    co_return earlierOr(*run, std::move(record), std::move(full));
  }
  // Approvers are not asked about a program of a session that has ended or not begun.
  if (run->home) {
    auto open = run->home->admit();
    if (!open && open.error().code == Code::kConflict)
      co_return earlierOr(*run, std::move(record), std::move(open).error());
  }
  const uint64_t memory = run->execution.session_id.empty() ? run->facts.limits.memory_bytes : 0;
  if (auto within = countRun(*run, memory); !within) {
    co_return earlierOr(*run, std::move(record), std::move(within).error());
  }
  if (auto read = co_await readWorkspace(run); !read) {
    uncountRun(*run);
    co_return earlierOr(*run, std::move(record), std::move(read).error());
  }
  store::NewExecution again = run->asks ? record : store::NewExecution{};
  auto asked = co_await recordAsked(run, std::move(record), wanted);
  const bool counted = asked && !asked->replayed;
  if (!counted) uncountRun(*run);
  if (!asked && asked.error().field == kPendingOfAgent && run->asks) {
    AgentRefusal refused = *std::exchange(run->asks, {});
    noteUnasked(refused, asked.error(), kDecideOne);
    co_return co_await recordViolation(run, std::move(again), std::move(refused));
  }
  const store::Accepted accepted = CO_TRY(std::move(asked));
  if (accepted.replayed) co_return accepted.execution;
  run->execution = accepted.execution;
  announce();
  run->spec = {};
  blocked.insert(run->execution.id);
  show(run);
  // An end during the ledger's write did not reach this run.
  if (const Cause ended = run->host->cause(); ended != Cause::kNone) {
    blocked.erase(run->execution.id);
    applyCause(run->execution, ended);
    co_await endBlocked(run);
    co_return run->execution;
  }
  if (run->asks) co_await noteViolation(run);
  if (run->asks) co_await settleIfDecided(run);
  co_return run->execution;
}

// A rule decides at the request, at once; a shared escalation may be decided meanwhile.
Task<void> RunService::Impl::settleIfDecided(LivePtr run) {
  const auto self = shared_from_this();
  const auto* id = run->execution.error->details.if_contains("escalation_id");
  const auto found = escalationOf(run->execution);
  const bool own = found && *found && (*found)->execution_id == run->execution.id;
  if (!own && id != nullptr && id->is_string()) follow(*run, std::string(id->get_string()));
  if (!found || !*found) co_return;
  const bool by_rule = own && (*found)->status == model::EscalationStatus::kApproved;
  if (!by_rule || draining || blocked.erase(run->execution.id) == 0) co_return settle(**found);
  co_await resume(run, **found);
}

// The escalation that the execution waits for: its own, or a shared escalation of an alike
// execution.
Result<std::optional<Escalation>> RunService::Impl::escalationOf(const Execution& execution) const {
  const store::Scope scope = store::Scope::of(execution.principal);
  auto own = TRY(control->store.escalations().ofExecution(scope, execution.id));
  if (own || !execution.error) return own;
  const auto* id = execution.error->details.if_contains("escalation_id");
  if (id == nullptr || !id->is_string()) return own;
  return TRY(control->store.escalations().get(store::Scope::ofTenant(execution.principal.tenant),
                                              std::string(id->get_string())));
}

Task<Result<store::Accepted>> RunService::Impl::recordAsked(LivePtr run, store::NewExecution record,
                                                            policy::NeedsApproval wanted) {
  record.approval.reset();  // an unsuitable approval is not used up
  const auto asks = co_await beginAsking(run->execution.principal);
  CO_TRY(wantApproval(*run, record, wanted));
  std::string shared;
  if (!record.escalation)
    shared = std::string(run->execution.error->details.at("escalation_id").as_string());
  model::AuditEvent event = withRuling(blockedEvent(run->execution, run->facts), run->ruling);
  auto accepted =
      co_await control->ledger.write(store::acceptExecution, std::move(record), std::move(event));
  // From here on the escalation counts the execution as waiting.
  if (accepted && !accepted->replayed && !shared.empty()) follow(*run, shared);
  co_return accepted;
}

// The audit entry of its acceptance has the digests of both. Policy and the approver saw the
// request, and the program is what runs: neither may have changed since.
Result<> RunService::Impl::checkAsAccepted(const store::Pending& pending) const {
  const Execution& execution = pending.execution;
  const auto recorded =
      TRY(control->store.recorded(store::Scope::of(execution.principal), execution.id));
  const base::json::object& accepted = recorded.accepted.event.details;
  const auto holds = [&](std::string_view name, const std::string& stored) {
    const base::json::value* digest = accepted.if_contains(name);
    return digest != nullptr && *digest == base::json::string(base::sha256Hex(stored));
  };
  if (holds("request_sha256", pending.request_json) && holds("spec_sha256", pending.spec)) {
    return {};
  }
  return fail(Code::kConflict,
              "reading " + execution.id +
                  ": what the ledger has of it is not what was accepted; see `cloister audit "
                  "verify`, and send it anew",
              std::string(policy::approval::kMismatch));
}

// Restores the run from the ledger, with its request and the program for the node.
Result<> RunService::Impl::reload(Live& run, const store::Pending& pending) const {
  TRY(checkAsAccepted(pending));
  run.spec = TRY(wire::decodeExecSpec(pending.spec));
  run.bound = TRY(boundNow(run, pending.request_json));
  if (run.home) return {};  // no session outlives the service, so the rest is unchanged
  const base::json::object request = TRY(parseStored(pending.request_json));
  run.request = TRY(model::parseRunRequest(request, storedBounds()));
  run.facts = {base::sha256Hex(pending.request_json), base::sha256Hex(pending.spec), "",
               run.request.limits, ""};
  run.rule_language = policy::ruleLanguage(run.request, control->languages);
  run.bytes = pending.spec.size();
  run.risk_facts = policy::riskFactsOf(run.request, control->languages, control->levels);
  run.request = policyPartsOf(run.request);
  // The stored program has its time limit, possibly lowered by policy at acceptance.
  run.request.limits.wall = std::min(run.request.limits.wall, run.spec.run.timeout);
  run.request.named_limits.set(model::limitIndex(model::limit_name::kWall));
  run.facts.limits = run.request.limits;
  return {};
}

// The run was accepted, so the run waits outside the bounds; policy decides again at its start.
// kUnsupported: the needed disk no longer exists.
Result<> RunService::Impl::requeue(const store::Pending& pending) {
  auto run = std::make_shared<Live>(control->executor);
  TRY(reload(*run, pending));
  TRY(checkDisk(run->facts.limits));
  run->log = std::make_shared<OutputLog>(control->executor, run->facts.limits.output_bytes);
  run->accepted_at = base::monotonicNow();
  run->execution = pending.execution;
  run->clock = base::RecordClock(model::latestTime(run->execution));
  if (parts.agents != nullptr) {
    run->held = TRY(parts.agents->heldFor(run->execution.principal));
  }
  run->approval = TRY(control->store.escalations().ofExecution(
      store::Scope::of(run->execution.principal), run->execution.id));
  if (const std::string& shared = run->execution.provenance.approval; !shared.empty()) {
    run->approval = TRY(sharedApproval(*run, shared));
    run->approval->status = model::EscalationStatus::kUsed;
  }
  run->host =
      makeOwnHost(control->nodes.current(), control->places,
                  control->places.needOf(run->request.limits, run->execution.principal.tenant));
  queue.take(run->execution.principal.tenant, run->bytes);
  enqueue(run);
  return {};
}

// The run continues to wait for its approval.
Result<> RunService::Impl::holdAgain(const store::Pending& pending) {
  auto run = std::make_shared<Live>(control->executor);
  TRY(reload(*run, pending));
  run->spec = {};
  run->log = std::make_shared<OutputLog>(control->executor, run->facts.limits.output_bytes);
  run->accepted_at = base::monotonicNow();
  run->execution = pending.execution;
  run->clock = base::RecordClock(model::latestTime(run->execution));
  run->host =
      makeOwnHost(control->nodes.current(), control->places,
                  control->places.needOf(run->request.limits, run->execution.principal.tenant));
  const auto waits_for = TRY(escalationOf(run->execution));
  blocked.insert(run->execution.id);
  show(run);
  if (waits_for && waits_for->execution_id != run->execution.id) follow(*run, waits_for->id);
  return {};
}

// Reports an escalation's end to the waiting executions.
void RunService::Impl::settle(const Escalation& e) {
  if (e.status == model::EscalationStatus::kPending || draining) return;
  if (const auto sessions = neighbour.lock()) sessions->settle(e);
  const bool runs =
      e.status == model::EscalationStatus::kApproved || e.status == model::EscalationStatus::kUsed;
  if (runs && !control->nodes.connected()) return;
  settleOne(e.execution_id, e);
  auto others = followers.extract({e.requester.tenant, e.id});
  if (others.empty()) return;
  for (const std::string& id : others.mapped())
    settleOne(id, e);
}

void RunService::Impl::settleWaiting() {
  if (const auto sessions = neighbour.lock()) sessions->settleWaiting();
  const auto waiting = blocked;
  for (const std::string& id : waiting) {
    const auto run = live.find(id);
    if (run == live.end()) continue;
    const auto found = escalationOf(run->second->execution);
    if (found && *found) settle(**found);
  }
}

void RunService::Impl::announce() {
  if (const auto watcher = escalations_watcher.lock()) watcher->escalated();
}

void RunService::Impl::settleOne(const std::string& execution_id, const Escalation& e) {
  const auto found = live.find(execution_id);
  if (found == live.end()) return;
  const LivePtr run = found->second;
  if (run->execution.principal.tenant != e.requester.tenant) return;
  if (blocked.erase(run->execution.id) == 0) return;
  // A run that shares the escalation continues though another run has used the approval.
  const bool used = e.status == model::EscalationStatus::kUsed && e.execution_id != execution_id;
  if (used || e.status == model::EscalationStatus::kApproved) {
    return async::spawn(control->executor, resume(run, e));
  }
  run->execution.error = notApprovedFor(control->store, run->execution.principal, e);
  run->execution.status = model::Status::kDenied;
  async::spawn(control->executor, endBlocked(run));
}

// If the approval lacks votes on the way, the run is judged again from the start.
Task<void> RunService::Impl::resume(LivePtr run, Escalation e) {
  const auto self = shared_from_this();
  Result<bool> done = false;
  while (done && !*done && run->cause == Cause::kNone) {
    run->approval.reset();
    run->spec = {};
    const auto approved = co_await released(run, e);
    if (approved && !*approved) co_return;
    if (approved) {
      done = co_await unblock(run, **approved);
    } else {
      done = std::unexpected(approved.error());
    }
    if (run->home && run->cause == Cause::kNone) run->cause = run->host->cause();
  }
  if (done && run->cause == Cause::kNone) {
    run->log->publish(run->execution);
    if (run->home) {
      run->let_in = false;
      occupy(*run);
      co_return co_await execute(run);
    }
    queue.take(run->execution.principal.tenant, run->bytes);
    if (lacksLayers(*run)) co_return co_await makeLayers(run);
    queue.push(run->execution.principal.tenant, run);
    co_return startWaiting();
  }
  letGo(*run);
  if (run->cause != Cause::kNone) {
    applyCause(run->execution, run->cause);
  } else if (!model::isTerminal(run->execution.status)) {
    applyDenial(run->execution, {.rule = run->facts.rule,
                                 .reason = done.error().message,
                                 .remedy = "",
                                 .for_approval = true});
    run->refusal = done.error();
    noteRefusal(*run);
  }
  co_await endBlocked(run);
}

// The approval is spent and the execution queued, both or neither, after policy was asked again.
Task<Result<bool>> RunService::Impl::unblock(LivePtr run, Escalation e) {
  const store::Scope scope = store::Scope::of(run->execution.principal);
  const store::Pending pending =
      CO_TRY(control->store.escalations().pending(scope, run->execution.id));
  CO_TRY(reload(*run, pending));
  CO_TRY(requesterStands(control->store, run->execution.principal));
  co_await consult(*run);
  const policy::Use use = useOf(*run);
  // One of the sharing runs uses the approval: the escalation's own run, or if that run has ended,
  // the first of the others.
  const std::string first = e.execution_id;
  const bool shares = first != run->execution.id;
  run->approval = CO_TRY(approvalNow(*run, e));
  if (!run->approval) co_return false;
  if (auto used = policy::use(*run->approval, use); !used)
    co_return std::unexpected(explained(*run, e, std::move(used).error(), ""));
  if (const auto denied = policy::refusalOf(judge(*run))) {
    applyDenial(run->execution, *denied);
    noteRefusal(*run);
    co_return fail(Code::kDenied, denied->reason);
  }
  if (auto refusal = CO_TRY(heldBackNow(*run, pending))) {
    const auto refused = co_await refuseBlocked(run, *std::move(refusal));
    co_return std::unexpected(refused.error());
  }
  if (auto disk = run->home ? Result<>() : checkDisk(run->facts.limits); !disk) {
    applyFault(run->execution, disk.error(), Cause::kNone, false);
    co_return std::unexpected(std::move(disk).error());
  }
  bool entered = run->home == nullptr;
  if (!entered) entered = CO_TRY(co_await enterAndHold(run, e));
  if (!entered) co_return false;
  const bool orphan = shares && !live.contains(first);
  Execution queued = run->execution;
  queued.status = model::Status::kQueued;
  queued.error.reset();
  if (shares) queued.provenance.approval = e.id;
  const store::EscalationChange change{.tenant = e.requester.tenant,
                                       .id = e.id,
                                       .apply = orphan ? adopting(use) : spending(use),
                                       .channels = {},
                                       .notification = ""};
  const model::AuditEvent event = withRuling(resumedEvent(queued, e.id), run->ruling);
  CO_TRY(co_await control->insist(run->execution.id, [&]() -> Task<Result<>> {
    if (shares && !orphan)
      co_return co_await control->ledger.write(store::updateExecution, queued, event);
    const auto both =
        co_await Ledger(control->store).write(store::changeEscalationWith, change, queued, event);
    // Another sharing run may have used the approval meanwhile.
    if (!both && orphan && both.error().field == policy::approval::kUsed)
      co_return co_await control->ledger.write(store::updateExecution, queued, event);
    if (!both) co_return std::unexpected(both.error());
    co_return Result<>{};
  }));
  run->execution = std::move(queued);
  co_return true;
}

Task<void> RunService::Impl::endBlocked(LivePtr run) {
  const auto self = shared_from_this();
  run->execution.finished_at = run->clock.now();
  co_await recordEnd(*run);
  retire(run);
  co_await withdraw(run->execution);
}

namespace {

// "the run ended as denied: bob is closed".
std::string endOf(const Execution& ended) {
  const std::string how = "the run ended as " + std::string(model::statusName(ended.status));
  return ended.error ? how + ": " + ended.error->message : how;
}

}  // namespace

// Closes the escalation after its last waiting run: a decision would have no use.
Task<void> RunService::Impl::withdraw(Execution ended) {
  const auto self = shared_from_this();
  const model::Principal& of = ended.principal;
  const store::Scope tenant = store::Scope::ofTenant(of.tenant);
  for (const std::string& id : unfollow(of, ended.id)) {
    const auto left = control->store.escalations().get(tenant, id);
    if (left && !live.contains(left->execution_id)) co_await closeEscalation(*left, endOf(ended));
  }
  const auto found = control->store.escalations().ofExecution(store::Scope::of(of), ended.id);
  if (!found || !*found || followers.contains({of.tenant, (*found)->id})) co_return;
  co_await closeEscalation(**found, endOf(ended));
}

Task<void> RunService::Impl::closeEscalation(Escalation e, std::string why) {
  const auto self = shared_from_this();
  constexpr size_t kMostWhy = 1024;
  if (e.ended_at != 0) co_return;
  const store::EscalationChange change{
      .tenant = e.requester.tenant,
      .id = e.id,
      .apply = [now = base::wallMicros(),
                why = model::safeText(why, kMostWhy)](Escalation& is) -> Result<model::AuditEvent> {
        is.status = model::EscalationStatus::kExpired;
        is.ended_reason = why;
        is.ended_at = std::max(now, model::latestTime(is));
        return withdrawnEvent(is);
      },
      .channels = {},
      .notification = ""};
  const auto done = co_await Ledger(control->store).write(store::changeEscalation, change);
  if (done) co_return settle(*done);  // for runs that came to wait meanwhile
  base::log(base::Level::kWarn, "escalation of an ended run stays open",
            {{"escalation", change.id}, {"reason", done.error().message}});
}

}  // namespace cloister::orchestrator
