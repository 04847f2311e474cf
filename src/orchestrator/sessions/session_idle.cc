// SPDX-License-Identifier: Apache-2.0
// Pauses of idle sessions (Session::pause_after): after that time without a program, what is left
// in the sandbox is stopped where it is. The next request for a program, a file or a port resumes
// the session.
#include "base/clock.h"
#include "base/log.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {

Task<void> Sessions::Impl::watchIdle(SessionPtr session) {
  const auto self = shared_from_this();
  const Millis after = session->record.pause_after;
  base::Monotonic failed_until = base::monotonicNow();
  while (!session->ending) {
    const auto since = session->lease.idleSince();
    const base::Monotonic now = base::monotonicNow();
    const base::Monotonic at =
        since && session->paused_at == 0 ? std::max(*since + after, failed_until) : now + after;
    if (at > now) {
      co_await session->changed.wait(at);
      continue;
    }
    session->sleeps = true;
    const auto paused = co_await pauseNow(session, session->record.principal);
    if (!paused) {
      session->sleeps = false;
      failed_until = base::monotonicNow() + after;
      base::log(base::Level::kInfo, "an idle session was not paused",
                {{"session", session->record.id}, {"error", paused.error().message}});
    }
    session->changed.notify();
  }
}

Task<Result<>> Sessions::Impl::wake(SessionPtr session, model::Principal by) {
  const auto busy = [&] {
    const bool begins = session->sleeps && !session->pause;
    return !session->ending && (session->waking || begins);
  };
  while (busy())
    co_await session->changed.wait();
  if (!session->sleeps || session->ending) co_return Result<>{};
  session->waking = true;
  auto resumed = co_await resumeNow(session, std::move(by));
  session->waking = false;
  session->changed.notify();
  co_return resumed;
}

}  // namespace cloister::orchestrator
