// SPDX-License-Identifier: Apache-2.0
// A session as seen by its programs, and its record with present figures.
#include <algorithm>

#include "base/clock.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {

using model::Session;
using model::SessionStatus;

Result<> LiveSession::count() {
  if (calls_per_minute == 0) return {};
  const base::Monotonic now = base::monotonicNow();
  if (const int seconds = rate.wait(calls_per_minute, now); seconds > 0) {
    Error over{Code::kQuota,
               "running in a session: " + std::to_string(calls_per_minute) +
                   " programs and calls a minute are allowed (session.calls_per_minute); come back "
                   "in " +
                   std::to_string(seconds) + " s",
               ""};
    over.retry_after_seconds = seconds;
    return std::unexpected(std::move(over));
  }
  rate.take(calls_per_minute, now);
  return {};
}

Result<> LiveSession::admitTo(const std::string& doing) {
  if (ending) return std::unexpected(endedError(doing, ending->reason));
  if (waits()) {
    return fail(Code::kConflict, doing + ": it waits for its approval, " + escalation);
  }
  if (record.status == SessionStatus::kCreating) {
    return fail(Code::kConflict, doing + ": it is still being made");
  }
  if (lease.over(base::monotonicNow())) {
    return std::unexpected(endedError(doing, endOfLease(record, lease.limit()).reason));
  }
  if (saving) {
    Error busy{Code::kUnavailable, doing + ": a snapshot of it is being taken", ""};
    busy.retry_after_seconds = 1;
    return std::unexpected(std::move(busy));
  }
  if (revoked) {
    Error busy{Code::kUnavailable,
               doing +
                   ": the rules of its agent have changed, and it is given a "
                   "sandbox that holds them",
               ""};
    busy.retry_after_seconds = 1;
    return std::unexpected(std::move(busy));
  }
  if (opened) {
    Error busy{Code::kUnavailable, doing + ": a program that was approved has it for itself", ""};
    busy.retry_after_seconds = 1;
    return std::unexpected(std::move(busy));
  }
  if (moving) {
    Error busy{Code::kUnavailable, doing + ": it is being moved", ""};
    busy.retry_after_seconds = 1;
    return std::unexpected(std::move(busy));
  }
  TRY(notHeldTo(doing));
  const auto alive = std::ranges::count_if(kernels, [](const auto& k) { return k.second->runs(); });
  if (programs + static_cast<uint32_t>(alive) >= max_programs) {
    return fail(Code::kQuota,
                doing + ": " + std::to_string(max_programs) +
                    " programs run in it already (session.max_execs); wait for one to end");
  }
  return {};
}

void LiveSession::enter() {
  lease.enter(base::monotonicNow());
  programs++;
  record.last_used_at = clock.now();
  changed.notify();
}

void LiveSession::leave() {
  lease.leave(base::monotonicNow());
  programs--;
  record.last_used_at = clock.now();
  if (opened && programs == 0) {  // other programs have to leave (session_rules.cc)
    opened = false;
    was_opened = revoked = true;
  }
  changed.notify();
}

void LiveSession::visit(const model::Principal& who) {
  if (who.sameAgent(record.principal)) return;
  const auto [known, is_first] = visitors.try_emplace(who.agent, who);
  // An administrator may be held to less than others of the same agent.
  if (!is_first && known->second.isAdmin()) known->second = who;
}

bool LiveSession::mayVisit(const model::Principal& who) const {
  return who.sameAgent(record.principal) || visitors.contains(who.agent) ||
         visitors.size() < max_programs;
}

std::shared_ptr<runtime::Sandbox> LiveSession::sandbox() const {
  return ending ? nullptr : box;
}

Result<> LiveSession::notHeldTo(const std::string& doing) const {
  if (!workspace_held) return {};
  if (paused_at != 0) {
    return fail(Code::kConflict, doing + ": it is paused; resume it first");
  }
  Error busy{Code::kUnavailable,
             doing + ": its workspace is held for " + held_for +
                 ", a program that was approved; try again when that has ended",
             ""};
  busy.retry_after_seconds = 1;
  return std::unexpected(std::move(busy));
}

Task<std::shared_ptr<void>> LiveSession::unheld(std::function<bool()> over) {
  while (workspace_held && !ending && !over())
    co_await changed.wait();
  if (over()) co_return nullptr;
  ++opening;
  co_return std::shared_ptr<void>(&opening, [this](void*) {
    --opening;
    changed.notify();
  });
}

Task<void> LiveSession::ended(base::Monotonic deadline) {
  while (!ending && base::monotonicNow() < deadline)
    co_await changed.wait(deadline);
}

Session LiveSession::now() const {
  if (closed) return record;
  Session session = record;
  session.running = programs;
  session.expires_at = waits() ? 0 : clock.at(lease.deadline());
  session.usage = usage();
  return session;
}

Session LiveSession::shown() const {
  Session session = now();
  if (paused_at != 0 && session.status == SessionStatus::kRunning) {
    session.status = SessionStatus::kPaused;
  }
  return session;
}

model::Usage LiveSession::measured() const {
  return box ? box->used().value_or(model::Usage{}) : model::Usage{};
}

model::Usage LiveSession::usage() const {
  model::Usage all = earlier;
  if (const auto used = box ? box->used() : std::nullopt) all.add(*used);
  return all;
}

}  // namespace cloister::orchestrator
