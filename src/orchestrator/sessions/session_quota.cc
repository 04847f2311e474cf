// SPDX-License-Identifier: Apache-2.0
// Quotas of processor time follow the processes of a session: what its sandbox uses beside its
// programs and kernels is charged to the session's owner, at each look and at its end.
#include <algorithm>

#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {
namespace {

// Use allowed after the quota is used up: the runner and the file server continue.
constexpr uint64_t kOverQuotaMs = 1000;

uint64_t cpuOf(const LiveSession& session) {
  return static_cast<uint64_t>(std::max<int64_t>(session.usage().cpu_ms, 0));
}

}  // namespace

void Sessions::Impl::charge() {
  if (control->quotas == nullptr) return;
  const auto sessions = live;
  for (const auto& [id, session] : sessions) {
    if (session->box && !session->ending) chargeOne(session);
  }
}

// Running executions continue to their own end after the quota is used up. Processes without an
// execution have no end: their session is ended.
void Sessions::Impl::chargeOne(const SessionPtr& session) {
  const model::Principal& owner = session->record.principal;
  const auto left = control->quotas->hasProcessorTime(owner);
  const uint64_t due = session->meter.look(cpuOf(*session), base::monotonicNow());
  control->quotas->charge(owner, due);
  session->over_quota_ms = left ? 0 : session->over_quota_ms + due;
  if (session->over_quota_ms > kOverQuotaMs) beginEnd(session, endByQuota(left.error()));
}

void Sessions::Impl::chargeLast(LiveSession& session) const {
  if (control->quotas == nullptr) return;
  control->quotas->charge(session.record.principal, session.meter.lookLast(cpuOf(session)));
}

}  // namespace cloister::orchestrator
