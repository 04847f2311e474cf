// SPDX-License-Identifier: Apache-2.0
// Changes of a live session's record: its metadata, and what its programs may reach. The door of
// the sandbox follows within the interval at which doors ask policy (orchestrator/egress/doors.h).
#include <utility>

#include "orchestrator/core/network.h"
#include "orchestrator/core/reach.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {
namespace {

base::json::array namesOf(const SessionAmendment& amendment) {
  base::json::array names;
  if (amendment.metadata) names.emplace_back("metadata");
  if (amendment.network) names.emplace_back("network_policy");
  return names;
}

void apply(const SessionAmendment& amendment, model::Session& record) {
  if (amendment.metadata) record.metadata = *amendment.metadata;
  if (amendment.network) record.network = *amendment.network;
}

// A sandbox gets its door when it is made, and no later.
Result<> mayAmend(LiveSession& session, const SessionAmendment& amendment,
                  const std::string& doing) {
  if (session.ending) return std::unexpected(endedError(doing, session.ending->reason));
  if (session.waits()) TRY(session.admit());
  if (session.record.status == model::SessionStatus::kCreating) {
    return fail(Code::kConflict, doing + ": it is still being made");
  }
  const bool wants_network = amendment.network && amendment.network->tier != "none";
  if (!wants_network || !session.open_door.empty()) return {};
  return fail(Code::kUnsupported,
              doing + ": its sandbox was made without a network; make a session that asks for one",
              "network_policy");
}

}  // namespace

Task<Result<model::Session>> Sessions::amend(model::Principal principal, std::string id,
                                             SessionAmendment amendment) {
  const std::shared_ptr<Impl> impl = impl_;
  const std::string doing = "changing a session";
  const SessionPtr session = CO_TRY(impl->findLive(principal, id, doing));
  CO_TRY(mustReach(principal, session->record.principal, doing));
  while (session->changing)
    co_await session->changed.wait();
  CO_TRY(mayAmend(*session, amendment, doing));
  session->changing = true;
  model::Session amended = session->now();
  apply(amendment, amended);
  amended.running = 0;
  model::AuditEvent event = amendedEvent(amended, principal, namesOf(amendment));
  const auto written =
      co_await impl->control->ledger.write(store::updateSession, amended, std::move(event));
  session->changing = false;
  if (written) {
    apply(amendment, session->record);
    if (amendment.network) session->request.network = *amendment.network;
  }
  session->changed.notify();
  if (session->ending) co_return std::unexpected(endedError(doing, session->ending->reason));
  if (!written) co_return std::unexpected(written.error());
  session->log->publish(session->now());
  co_return session->now();
}

}  // namespace cloister::orchestrator
