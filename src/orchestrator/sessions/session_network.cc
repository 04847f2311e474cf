// SPDX-License-Identifier: Apache-2.0
// The network of a session's sandbox. Its programs share the door.
#include <utility>

#include "orchestrator/core/network.h"
#include "orchestrator/sessions/sessions_impl.h"

namespace cloister::orchestrator {

Task<Result<std::string>> Sessions::Impl::openDoor(SessionPtr session,
                                                   std::optional<model::NetworkPlan> plan) {
  if (!plan) co_return std::string();
  if (control->network == nullptr) {
    co_return fail(Code::kUnsupported, "opening the network: this service has none");
  }
  const std::string permit = plan->permit;
  DoorOwner owner{
      .principal = session->record.principal, .execution_id = "", .session_id = session->record.id};
  // Weak, because a door is closed by its session.
  Network::Again again = [weak = weak_from_this(),
                          of =
                              std::weak_ptr(session)]() -> Task<std::optional<model::NetworkPlan>> {
    const auto self = weak.lock();
    const SessionPtr session = of.lock();
    if (!self || !session) co_return std::nullopt;
    co_return co_await self->planNow(session);
  };
  CO_TRY(co_await control->network->open(*std::move(plan), std::move(owner), std::move(again)));
  CO_TRY(co_await control->network->confirm(permit));
  co_return permit;
}

// By the policy and the agent's rules in force. An approval of the session stays good for its
// sandbox.
Task<std::optional<model::NetworkPlan>> Sessions::Impl::planNow(SessionPtr session) {
  Held held = session->held;
  if (agents != nullptr) {
    const auto now = held_lately.of(*agents, session->record.principal);
    if (!now) co_return std::nullopt;
    held = *now;
  }
  const Subject subject{.operation = "session",
                        .request = session->request,
                        .principal = session->record.principal,
                        .risk_facts = session->risk_facts,
                        .held = held,
                        .language = session->rule_language,
                        .session_id = session->record.id,
                        .inside = session->runtime};
  const Ruling ruling = co_await control->permits.rule(subject);
  const bool approved = session->approval.has_value();
  const policy::Decision decision = control->permits.judge(
      ruling, subject, [approved](const policy::NeedsApproval* /*wanted*/) { return approved; });
  if (policy::refusalOf(decision)) co_return std::nullopt;
  auto plan = control->permits.network(ruling, subject, session->record.provenance.permit_id);
  co_return plan ? std::optional(*std::move(plan)) : std::nullopt;
}

void Sessions::Impl::closeDoor(std::string permit) const {
  if (!permit.empty()) control->network->close(permit);
}

}  // namespace cloister::orchestrator
