// SPDX-License-Identifier: Apache-2.0
// The end of a session: Sessions::Impl::finish. Every cause arrives through beginEnd, which accepts
// only the first cause.
#include <algorithm>
#include <latch>
#include <utility>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/record_clock.h"
#include "model/record_times.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "store/rows/sessions.h"

namespace cloister::orchestrator {
namespace {

using model::Session;
using model::SessionStatus;

constexpr Millis kDrainPatience{20'000};

// A teardown under way, possibly longer than anyone's wait.
struct TearDown {
  TearDown(const boost::asio::any_io_executor& executor, std::shared_ptr<runtime::Sandbox> of)
      : sandbox(std::move(of)), changed(executor) {}

  static Task<void> run(std::shared_ptr<TearDown> self, std::string session) {
    if (const auto done = co_await self->sandbox->teardown(); !done) {
      base::log(base::Level::kError, "sandbox not torn down",
                {{"session", session}, {"reason", done.error().message}});
    }
    self->done = true;
    self->changed.notify();
  }

  std::shared_ptr<runtime::Sandbox> sandbox;
  bool done = false;
  async::Signal changed;
};

}  // namespace

void Sessions::Impl::beginEnd(const SessionPtr& session, SessionEnd end) {
  beginEnd(session, std::move(end), session->record.principal);
}

void Sessions::Impl::beginEnd(const SessionPtr& session, SessionEnd end,
                              const model::Principal& by) {
  if (session->ending) return;
  const Cause programs = end.programs;
  session->ending = std::move(end);
  session->ended_by = by;
  session->name_held.reset();
  session->give_up = base::monotonicNow() + config.patience.programs + config.patience.tear_down +
                     config.patience.late;
  session->changed.notify();
  control->changed.notify();  // the session may wait for its place
  runs->endPrograms(session->record.id, programs, true);
  for (const auto& [name, kernel] : session->kernels)
    kernel->abandon();
  for (const auto& each : session->calls) {
    if (const auto call = each.lock()) call->abandon();
  }
  async::spawn(control->executor, finish(session));
}

void Sessions::Impl::lookAtCredentials(const std::function<bool(const std::string&)>& stands) {
  const auto sessions = live;
  for (const auto& [id, session] : sessions) {
    if (session->ending || stands(session->record.principal.key_id)) continue;
    beginEnd(session, endByCredential(session->record));
  }
}

Task<void> Sessions::Impl::finish(SessionPtr session) {
  const auto self = shared_from_this();
  const base::Monotonic until = base::monotonicNow() + config.patience.begin;
  // A stopping service waits for no sandbox: the node ends the sandbox with the connection.
  while (!session->begun && !draining && base::monotonicNow() < until)
    co_await session->changed.wait(until);
  session->abandoned = !session->begun;
  co_await emptied(*session, base::monotonicNow() + config.patience.programs);
  co_await tearDown(*session);
  co_await emptied(*session, session->give_up);
  co_await recordEnd(*session);
  retire(session);
  co_await withdraw(session);
}

Task<void> Sessions::Impl::emptied(LiveSession& session, base::Monotonic deadline) {
  while (session.programs > 0 && base::monotonicNow() < deadline)
    co_await session.changed.wait(deadline);
}

Task<void> Sessions::Impl::tearDown(LiveSession& session) {
  std::string door = std::exchange(session.open_door, {});
  if (!session.box) co_return closeDoor(std::move(door));
  const model::Usage before = session.earlier;
  session.earlier = session.usage();
  const auto going =
      std::make_shared<TearDown>(control->executor, std::exchange(session.box, nullptr));
  async::spawn(control->executor, TearDown::run(going, session.record.id));
  const base::Monotonic until = base::monotonicNow() + config.patience.tear_down;
  while (!going->done && base::monotonicNow() < until)
    co_await going->changed.wait(until);
  if (const auto last = going->sandbox->used()) {
    session.earlier = before;
    session.earlier.add(*last);
  }
  closeDoor(std::move(door));
  if (going->done) co_return;
  base::log(base::Level::kError, "sandbox not torn down in time", {{"session", session.record.id}});
}

// Clients see the end only after the end is durable.
Task<void> Sessions::Impl::recordEnd(LiveSession& session) {
  chargeLast(session);
  Session record = session.now();
  record.status = SessionStatus::kEnded;
  if (session.ending) record.end = session.ending->reason;
  record.running = 0;
  record.error.reset();
  record.expires_at = 0;
  record.ended_at = session.clock.now();
  const model::AuditEvent event = endedEvent(record, session.ended_by);
  const auto written = co_await control->insist(
      record.id, [&] { return control->ledger.write(store::updateSession, record, event); });
  session.closed = true;
  if (written) {
    session.record = std::move(record);
    control->metrics.sessionEnded(session.record);
    session.log->publish(session.record);
  } else {
    base::log(base::Level::kError, "end of a session not recorded",
              {{"session", record.id}, {"reason", written.error().message}});
    session.log->close();
  }
  session.changed.notify();
}

// Out of the live ones; its events are kept for late readers.
void Sessions::Impl::retire(const SessionPtr& session) {
  const std::string& id = session->record.id;
  live.erase(id);
  ended[id] = session->log;
  ended_order.push_back(id);
  while (ended_order.size() > config.ended_in_memory) {
    ended.erase(ended_order.front());
    ended_order.pop_front();
  }
  if (std::exchange(session->taken, false)) give(session);
  count();
}

Task<void> Sessions::Impl::watchLease(SessionPtr session) {
  const auto self = shared_from_this();
  while (!session->ending) {
    if (session->lease.over(base::monotonicNow())) {
      beginEnd(session, endOfLease(session->record, session->lease.limit()));
    } else {
      co_await session->changed.wait(session->lease.deadline());
    }
  }
}

Task<void> Sessions::Impl::watchSandbox(SessionPtr session,
                                        std::shared_ptr<runtime::Sandbox> sandbox) {
  const auto self = shared_from_this();
  const model::SandboxEnd end = co_await sandbox->died();
  if (end.kind == model::SandboxEnd::Kind::kTornDown) co_return;
  beginEnd(session, endOfSandbox(end, session->record.limits));
}

void Sessions::Impl::nodeLost() {
  const auto sessions = live;
  for (const auto& [id, session] : sessions) {
    if (!session->waits()) beginEnd(session, endOfNode("its connection ended"));
  }
}

Task<Result<Session>> Sessions::end(model::Principal principal, std::string id) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "ending a session";
  if (const SessionPtr session = impl->find(principal, id)) {
    CO_TRY(mustReach(principal, session->record.principal, doing));
    impl->beginEnd(session, endOnRequest(), principal);
    while (!session->closed)
      co_await session->changed.wait();
  }
  auto is = impl->control->store.session(store::Scope::of(principal), id);
  if (is) CO_TRY(mustReach(principal, is->principal, doing));
  co_return is;
}

Result<> Sessions::recover() {
  for (Session& session : TRY(impl_->control->store.unfinishedSessions())) {
    session.end = endOfService().reason;
    if (session.status == SessionStatus::kBlocked) {
      const auto again = impl_->holdAgain(session);
      if (again) continue;
      session.end = endByFault(again.error()).reason;
    }
    session.error.reset();
    session.status = SessionStatus::kEnded;
    session.expires_at = 0;
    session.ended_at = base::RecordClock(model::latestTime(session)).now();
    TRY(impl_->settleNow(std::move(session)));
  }
  return {};
}

// Nothing runs yet, so this thread may wait for the ledger's thread.
Result<> Sessions::Impl::settleNow(Session session) {
  const model::AuditEvent event = endedEvent(session, session.principal);
  Result<> written;
  std::latch done(1);
  control->store.write(store::writing(store::updateSession, session, event),
                       [&](Result<void> result) {
                         written = std::move(result);
                         done.count_down();
                       });
  done.wait();
  return control->orInsist(std::move(written), session.id, [on = control, session, event] {
    return on->ledger.write(store::updateSession, session, event);
  });
}

Task<void> Sessions::drain() {
  const std::shared_ptr<Impl> impl = impl_;
  impl->draining = true;
  const base::Monotonic until = base::monotonicNow() + kDrainPatience;
  impl->control->giveUpAt(std::min(impl->control->givesUpAt(), until));
  // Sessions waiting for approval stay: the ledger has these sessions for the next start.
  const auto sessions = impl->live;
  for (const auto& [id, session] : sessions) {
    if (!session->waits()) impl->beginEnd(session, endOfService());
    session->changed.notify();
  }
  const auto all_wait = [&] {
    return std::ranges::all_of(impl->live, [](const auto& each) { return each.second->waits(); });
  };
  while (!all_wait() && base::monotonicNow() < until)
    co_await impl->control->changed.wait(until);
}

}  // namespace cloister::orchestrator
