// SPDX-License-Identifier: Apache-2.0
// Ends runs whose sandboxes grant permissions that their agent has lost. Sessions have their own
// rules (session_rules.cc).
#include "async/spawn.h"
#include "base/log.h"
#include "orchestrator/guard/rules_now.h"
#include "orchestrator/runs/run_impl.h"

namespace cloister::orchestrator {

Task<void> RunService::Impl::lookAtRulesRegularly() {
  const auto self = shared_from_this();
  while (!stopped) {
    co_await stopping.wait(base::monotonicNow() + config.rules_every);
    if (stopped) break;
    lookAtCredentials();
    const auto sessions = neighbour.lock();
    if (sessions) sessions->charge();
    if (parts.agents == nullptr) continue;
    RulesNow now(*parts.agents);
    endWhatIsRevoked(now);
    if (sessions) sessions->lookAtRules(now);
  }
}

// Rules unreadable for long count as revoked: nobody knows the remaining permissions.
void RunService::Impl::endWhatIsRevoked(RulesNow& now) {
  const auto runs = live;
  for (const auto& [id, run] : runs) {
    // session_rules.cc handles programs of the session's maker.
    const bool visits = run->home && !run->execution.principal.sameAgent(run->home->within().maker);
    const bool own = run->execution.session_id.empty();
    if (!(own || visits) || run->revoked || run->execution.status != model::Status::kRunning)
      continue;
    const model::Principal& by = run->execution.principal;
    const std::string& tier = run->request.network.tier;  // "none" beside the session
    const auto stricter = visits ? now.stricterOnVisit(by, run->home->within().held, tier)
                                 : now.stricter(by, run->by_rules);
    run->unreadable = stricter ? 0 : run->unreadable + 1;
    const bool taken = stricter ? *stricter != nullptr : run->unreadable >= kMostUnreadable;
    if (!taken) continue;
    run->revoked = true;
    if (control->config.end_revoked) endFromOutside(*run, Cause::kRevoked);
    async::spawn(control->executor, recordRevoked(run));
  }
}

// Judges the request again, because rules may have changed, and prepares a sandbox under the rules
// in force.
Task<Result<>> RunService::Impl::holdAsOfNow(Live& run) {
  const model::Principal& by = run.execution.principal;
  if (parts.agents == nullptr) co_return Result<>{};
  const bool visits = run.home && !by.sameAgent(run.home->within().maker);
  if (!visits && !CO_TRY(parts.agents->heldFor(by))) {
    run.held = run.by_rules = nullptr;
    co_return Result<>{};
  }
  const store::Pending pending =
      CO_TRY(control->store.escalations().pending(store::Scope::of(by), run.execution.id));
  auto refusal = CO_TRY(heldBackNow(run, pending));
  if (!refusal) co_return Result<>{};
  co_return co_await refuseBlocked(live.at(run.execution.id), *std::move(refusal));
}

Task<void> RunService::Impl::recordRevoked(LivePtr run) {
  const auto self = shared_from_this();
  const auto written = co_await control->ledger.write(
      store::appendEvent, revokedEvent(run->execution, control->config.end_revoked));
  if (written) co_return;
  base::log(base::Level::kError, "a revocation was not recorded",
            {{"execution", run->execution.id}, {"reason", written.error().message}});
}

}  // namespace cloister::orchestrator
