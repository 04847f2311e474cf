// SPDX-License-Identifier: Apache-2.0
// A session from before the verification of the node's image: its record gets the digest after the
// verification.
#include "async/spawn.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {

using model::Session;

void Sessions::Impl::imageVerified() {
  for (const auto& [id, session] : live) {
    if (isUnverified(session->record.provenance) && !session->ending) {
      async::spawn(control->executor, recordImage(session));
    }
  }
}

Task<void> Sessions::Impl::recordImage(SessionPtr session) {
  const auto self = shared_from_this();
  while ((session->changing || !session->begun) && !session->ending)
    co_await session->changed.wait();
  Session record = session->now();
  control->nodes.settleImage(record.provenance, session->image_since);
  const bool running = record.status == model::SessionStatus::kRunning && !session->ending;
  if (!running || isUnverified(record.provenance) || !isUnverified(session->record.provenance)) {
    co_return;
  }
  session->changing = true;
  record.running = 0;
  const model::Provenance provenance = record.provenance;
  model::AuditEvent event = imageVerifiedEvent(record);
  const auto written =
      co_await control->ledger.write(store::updateSession, std::move(record), std::move(event));
  session->changing = false;
  if (written) session->record.provenance = provenance;
  session->changed.notify();
  if (written && !session->ending) session->log->publish(session->now());
}

}  // namespace cloister::orchestrator
