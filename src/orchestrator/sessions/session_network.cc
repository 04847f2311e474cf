// SPDX-License-Identifier: Apache-2.0
// The network of a session's sandbox. Its programs share the door.
#include <utility>

#include "base/clock.h"
#include "orchestrator/core/network.h"
#include "orchestrator/sessions/sessions_impl.h"
#include "policy/secret_grants.h"
#include "store/rows/secrets.h"

namespace cloister::orchestrator {

Result<> Sessions::Impl::loadSecrets(LiveSession& session) const {
  if (session.request.secrets.empty()) return {};
  SecretsInUse fresh =
      TRY(orchestrator::loadSecrets(control->store, session.record.principal.tenant,
                                    session.request.secrets, base::wallMicros()));
  if (const auto& before = session.secrets) {
    fresh.variables = before->variables;
    for (size_t i = 0; i < fresh.brokered.size(); ++i)
      fresh.brokered[i].placeholder = before->brokered[i].placeholder;
  }
  session.known_secrets->add(fresh.known);
  session.secrets = std::move(fresh);
  return {};
}

// Durable before the values leave the control plane.
Task<Result<>> Sessions::Impl::recordSecretUse(SessionPtr session) {
  if (!session->secrets) co_return Result<>{};
  model::AuditEvent event{.action = "secret.used",
                          .subject = session->record.id,
                          .principal = session->record.principal,
                          .details = {{"secrets", session->secrets->shown}}};
  co_return co_await control->ledger.write(store::noteSecretsUsed, session->record.principal.tenant,
                                           session->secrets->names, base::wallMicros(),
                                           std::move(event));
}

Task<Result<Sessions::Impl::OpenedDoor>> Sessions::Impl::openDoor(
    SessionPtr session, std::optional<model::NetworkPlan> plan) {
  OpenedDoor opened;
  if (!plan) co_return opened;
  if (control->network == nullptr) {
    co_return fail(Code::kUnsupported, "opening the network: this service has none");
  }
  CO_TRY(co_await recordSecretUse(session));
  opened.weakened = policy::weakenedBySecrets(*plan);
  opened.permit = plan->permit;
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
  DoorSecrets secrets;
  if (session->secrets) secrets.values = std::exchange(session->secrets->values, {});
  secrets.redacted = [known = session->known_secrets](const std::string& text) {
    return known->redacted(text);
  };
  CO_TRY(co_await control->network->open(*std::move(plan), std::move(owner), std::move(again),
                                         std::move(secrets)));
  const std::string certificate = CO_TRY(co_await control->network->confirm(opened.permit));
  if (!certificate.empty() && session->runtime == "microvm") {
    control->network->close(opened.permit);
    co_return fail(Code::kUnsupported,
                   "making a session: inspected destinations are not offered in microvm");
  }
  if (!certificate.empty()) opened.additions = trustIn(certificate, systemAuthorities());
  if (session->secrets && !session->secrets->variables.empty()) {
    if (!opened.additions) opened.additions.emplace();
    auto& variables = opened.additions->variables;
    variables.insert(variables.end(), session->secrets->variables.begin(),
                     session->secrets->variables.end());
  }
  co_return opened;
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
                        .inside = session->runtime,
                        .brokered = session->secrets ? &session->secrets->brokered : nullptr};
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
