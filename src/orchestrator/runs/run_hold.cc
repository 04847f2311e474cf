// SPDX-License-Identifier: Apache-2.0
// A program of a session after its approval. The program waits until the session admits the
// program, and until the workspace is held as at the request for the approval. Only then is the
// approval spent.
#include <utility>

#include "async/awaiting.h"
#include "base/log.h"
#include "model/shown_text.h"
#include "orchestrator/runs/run_impl.h"
#include "orchestrator/runs/workspace_links.h"
#include "policy/approval.h"
#include "store/rows/escalation_rows.h"

namespace cloister::orchestrator {

using model::Escalation;

namespace {

constexpr size_t kShownPath = 400;

}  // namespace

Task<Result<>> RunService::Impl::readWorkspace(LivePtr run) {
  if (!run->access.read) co_return Result<>{};
  run->workspace = CO_TRY(co_await run->access.read());
  if (run->request.fresh) co_return Result<>{};  // a link's target differs in a fresh sandbox
  if (const auto out = linkOut(*run->workspace)) {
    co_return fail(Code::kInvalid,
                   "asking for approval: the link " + model::markedText(out->link, kShownPath) +
                       " in the workspace leads to " + model::markedText(out->where, kShownPath) +
                       ", which an approval does not cover; put what it leads to into /workspace, "
                       "remove the link, or ask with sandbox: fresh",
                   run->rule_language == "command" ? "command" : "code");
  }
  co_return Result<>{};
}

Result<Bound> RunService::Impl::boundNow(const Live& run, const std::string& request_json) const {
  Bound bound = TRY(boundOf(request_json, run.execution.session_id, control->languages));
  bound.secrets =
      secretVersions(control->store, run.execution.principal.tenant, run.request.secrets);
  if (run.workspace) {
    bound.workspace_sha256 = run.workspace->sha256();
    bound.workspace_shown = run.workspace->shown();
  }
  return bound;
}

Task<Result<>> RunService::Impl::letIn(LivePtr run) {
  CO_TRY(co_await run->enter(run->opened, run->by_rules));
  run->let_in = true;
  if (!run->access.hold) co_return Result<>{};
  const auto lost = [self = shared_from_this(), weak = std::weak_ptr(run)] {
    if (const auto live = weak.lock()) self->endFromOutside(*live, Cause::kHoldLost);
  };
  const auto over = [self = shared_from_this(), run] { return self->isOver(*run); };
  run->hold = CO_TRY(co_await run->access.hold(run->execution.id, run->workspace, lost, over));
  run->host->pass();
  co_return Result<>{};
}

bool RunService::Impl::isOver(const Live& run) const {
  return run.cause != Cause::kNone || run.host->cause() != Cause::kNone || draining;
}

// Waits for the session's admission. The approved exceptions may need another sandbox.
Task<Result<bool>> RunService::Impl::enterAndHold(LivePtr run, Escalation e) {
  const auto self = shared_from_this();
  constexpr Millis kLookAgain{500};
  // The approval stays valid, though the escalation's own run may end before.
  const bool shares = e.execution_id != run->execution.id;
  if (shares) follow(*run, e.id);
  while (!isOver(*run)) {
    const auto entered = co_await letIn(run);
    if (isOver(*run)) break;
    const auto approved = stillApproved(*run, e, entered);
    if (entered && approved && *approved) {
      if (shares) unfollow(run->execution.principal, run->execution.id);
      co_return true;
    }
    letGo(*run);
    const bool passes = entered || entered.error().code == Code::kQuota ||
                        entered.error().code == Code::kUnavailable;
    if (!passes) {
      if (entered.error().field == policy::approval::kMismatch)
        co_await denyForEffect(*run->approval, entered.error().message);
      co_return std::unexpected(entered.error());
    }
    if (!approved || !*approved) co_return approved;
    co_await control->changed.wait(base::monotonicNow() + kLookAgain);
  }
  if (run->cause == Cause::kNone) run->cause = draining ? Cause::kStopping : run->host->cause();
  co_return fail(Code::kConflict, "it was ended while it waited for its session");
}

// The session may delay the program for long: meanwhile votes or the program's credential may be
// revoked, and others may vote. An admitted program uses the approval in its present state.
Result<bool> RunService::Impl::stillApproved(Live& run, const Escalation& asked,
                                             const Result<>& entered) const {
  TRY(requesterStands(control->store, run.execution.principal));
  auto e = TRY(approvalNow(run, asked));
  if (!e) return false;
  const bool in_time = base::wallMicros() < e->grant_expires_at;
  if (!entered && in_time && e->status == model::EscalationStatus::kApproved) return true;
  auto used = policy::use(*e, useOf(run));
  if (!used && !entered && used.error().field == policy::approval::kExpired) {
    return fail(Code::kConflict,
                "the approval's time was over before the session let it in (" +
                    entered.error().message + "); ask anew",
                std::string(policy::approval::kExpired));
  }
  TRY(std::move(used));
  run.approval = std::move(e);
  return true;
}

void RunService::Impl::letGo(Live& run) {
  run.hold.reset();
  if (!std::exchange(run.let_in, false)) return;
  run.host->occupy();  // vacate() also ends a separate sandbox
  run.host->vacate();
}

// The effect differs from the approved effect for good.
Task<void> RunService::Impl::denyForEffect(Escalation e, std::string why) {
  const auto self = shared_from_this();
  const store::EscalationChange change{
      .tenant = e.requester.tenant,
      .id = e.id,
      .apply = [why, now = base::wallMicros()](Escalation& is) -> Result<model::AuditEvent> {
        TRY(policy::denyByRule(is, why, now));
        return votedEvent(is, is.decisions.back().by, false, why);
      },
      .channels = channelsFor(control->store, e.requester, config.escalation),
      .notification = "settled",
      .notifications = config.escalation.bounds.notifications};
  const auto done = co_await Ledger(control->store).write(store::changeEscalation, change);
  if (done) {
    announce();
    co_return settle(*done);
  }
  base::log(base::Level::kWarn, "an approval whose effect has changed stays as it is",
            {{"escalation", e.id}, {"reason", done.error().message}});
}

}  // namespace cloister::orchestrator
