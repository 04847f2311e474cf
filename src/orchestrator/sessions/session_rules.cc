// SPDX-License-Identifier: Apache-2.0
// The rules of an agent may change during its session; so may the rules of a visiting agent. A
// permission lost by the agent is lost by the session: its programs end, or run to their end, and
// the session continues in another sandbox, with the same workspace, under the rules in force.
// Until then no program is admitted.
#include <utility>

#include "async/spawn.h"
#include "base/log.h"
#include "orchestrator/guard/rules_now.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {
namespace {

// Time to wait for such a sandbox. Then the session ends, because programs left running in the
// present sandbox may still have the lost permission.
constexpr std::chrono::seconds kPatience{60};
// As kPatience, after an approved program: its remains may have the approved exceptions.
constexpr std::chrono::seconds kSoon{5};

}  // namespace

void Sessions::Impl::lookAtRules(RulesNow& now) {
  const auto sessions = live;
  for (const auto& [id, session] : sessions) {
    if (!session->begun || !session->box || session->ending) continue;
    // The approved program keeps its exceptions to its end.
    const Held& held = session->opened ? session->by_rules : session->held;
    const auto own = now.stricter(session->record.principal, held);
    const auto visitors = isTooOpenForVisitors(*session, now);
    session->unreadable = own && visitors ? 0 : session->unreadable + 1;
    const bool lost = session->unreadable >= kMostUnreadable;
    const bool stricter = (own && *own) || (visitors ? *visitors : own && lost);
    if (stricter || (own && visitors)) {
      lookAtRulesOf(session, stricter);
    } else if (lost) {
      beginEnd(session, endByRules(own.error()));
    }
  }
}

// A visitor's remaining processes cannot be ended separately, only with the sandbox.
Result<bool> Sessions::Impl::isTooOpenForVisitors(const LiveSession& session, RulesNow& now) {
  for (const auto& [agent, visitor] : session.visitors) {
    if (TRY(now.stricterOnVisit(visitor, session.held, session.record.network.tier))) return true;
  }
  return false;
}

void Sessions::Impl::lookAtRulesOf(const SessionPtr& session, bool stricter) {
  // During a move, `held` belongs to the new sandbox, which the session may not get.
  if (!stricter && session->moving) return;
  session->revoked = stricter;
  if (!stricter) {
    session->rules_since = base::Monotonic::max();
    session->changed.notify();
    return;
  }
  const base::Monotonic now = base::monotonicNow();
  if (control->config.end_revoked) session->rules_since = std::min(session->rules_since, now);
  if (session->rules_since < now - (session->was_opened ? kSoon : kPatience)) {
    beginEnd(session, endByRules({Code::kUnavailable, "there was none in time", ""}));
  } else if (!session->under_rules && !session->saving && !session->moving) {
    session->under_rules = true;
    async::spawn(control->executor, applyRules(session));
  }
}

Task<void> Sessions::Impl::applyRules(SessionPtr session) {
  const auto self = shared_from_this();
  const auto needed = [&] { return session->revoked && !session->ending; };
  const auto busy = [&] { return session->programs > 0 || session->workspace_held; };
  while (!control->config.end_revoked && busy() && needed())
    co_await session->changed.wait();
  Result<> done;
  if (needed()) {
    session->rules_since = std::min(session->rules_since, base::monotonicNow());
    done = co_await goOnUnderRules(session);
  }
  session->under_rules = false;
  if (!needed()) co_return;
  if (!done) {
    base::log(base::Level::kWarn, "a session waits for a sandbox under the rules in force",
              {{"session", session->record.id}, {"reason", done.error().message}});
    co_return;
  }
  session->revoked = session->was_opened = false;
  session->rules_since = base::Monotonic::max();
  session->log->publish(session->now());
}

// The session's sandbox must grant the program's approved exceptions. Otherwise the session
// continues in another sandbox until the program has ended. The program is alone there.
Task<Result<>> Sessions::Impl::enter(SessionPtr session, Held opened, Held by_rules) {
  const auto self = shared_from_this();
  CO_TRY(session->admit());
  const Held& has = session->held;
  const bool lacks = opened && has && letsMore(opened, *has);
  if (!lacks) co_return Result<>{};
  if (session->programs > 0) {
    co_return fail(Code::kUnavailable, "running in a session: it waits for its other programs");
  }
  CO_TRY(hasRoomToMove());
  const auto second = holdSecondPlace(session);
  CO_TRY(co_await clear(session, false, Cause::kCancelled));
  CO_TRY(co_await goOnInAnother(session, session->record.principal, {}, kOpened, opened));
  session->opened = true;
  session->by_rules = std::move(by_rules);
  co_return Result<>{};
}

// The present sandbox is kept until another sandbox has the workspace.
Task<Result<>> Sessions::Impl::goOnUnderRules(SessionPtr session) {
  CO_TRY(co_await clear(session, true, Cause::kRevoked));
  CO_TRY(hasRoomToMove());
  const auto second = holdSecondPlace(session);
  co_return co_await goOnInAnother(session, session->record.principal, {}, kUnderRules);
}

}  // namespace cloister::orchestrator
