// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/permits.h"

#include <utility>

#include "wire/node.h"

namespace cloister::orchestrator {

policy::Question Permits::question(const Subject& subject, std::string permit_id) const {
  return {.request = subject.request,
          .principal = subject.principal,
          .execution_id = subject.execution_id,
          .permit_id = std::move(permit_id),
          .spec_sha256 = subject.spec_sha256,
          .prestart = subject.prestart,
          .layers = subject.layers,
          .now = base::wallMicros(),
          .valid_for = life_.count(),
          .language = subject.language,
          .session_id = subject.session_id,
          .runtimes = &node_.offer.runtimes,
          .images = &node_.offer.images,
          .inside = subject.inside,
          .walls = subject.held ? &subject.held->walls : nullptr,
          .agent_cpu_millis = subject.held ? subject.held->cpu_millis : 0,
          .operation = subject.operation,
          .risk_facts = &subject.risk_facts,
          .agent_network = subject.held ? &subject.held->network : nullptr,
          .internal = &internal_,
          .packages = &packages_,
          .brokered = subject.brokered};
}

Task<Ruling> Permits::rule(const Subject& subject) const {
  const auto held = subject.held;  // a session may get other rules while the engine thinks
  const policy::Question asked = question(subject);
  co_return co_await engine_.rule(asked);
}

policy::Decision Permits::decide(const Ruling& ruling, policy::Question asked,
                                 const Approval& approval) const {
  const policy::Policy& policy = *ruling.policy;
  policy::Decision decision = policy::decide(policy, asked);
  if (std::holds_alternative<policy::Denied>(decision) || !approval) return decision;
  const auto* wanted = std::get_if<policy::NeedsApproval>(&decision);
  const auto approved = approval(wanted);
  if (!approved) return approved.error();
  if (wanted == nullptr || !*approved) return decision;
  asked.approved = true;
  return policy::decide(policy, asked);
}

policy::Decision Permits::judge(const Ruling& ruling, const Subject& subject,
                                const Approval& approval) const {
  return decide(ruling, question(subject), approval);
}

Permission Permits::ask(const Ruling& ruling, const Subject& subject, std::string permit_id,
                        const Approval& approval) const {
  const policy::Decision decision =
      decide(ruling, question(subject, std::move(permit_id)), approval);
  if (auto denied = policy::refusalOf(decision)) return std::unexpected(*std::move(denied));
  const auto& permit = std::get<model::Permit>(decision);
  Granted granted{.fields = permit.fields(), .permit = {}, .network = permit.network()};
  granted.permit.encoded = wire::encodePermit(granted.fields);
  granted.permit.signature = key_.sign(granted.permit.encoded);
  return granted;
}

std::expected<model::NetworkPlan, policy::Denied> Permits::network(const Ruling& ruling,
                                                                   const Subject& subject,
                                                                   std::string permit_id) const {
  policy::Question asked = question(subject, std::move(permit_id));
  asked.inside.clear();  // the question is about the sandbox itself
  policy::Evaluation made = policy::evaluate(*ruling.policy, asked);
  if (made.denied) return std::unexpected(*std::move(made.denied));
  if (made.network) return *std::move(made.network);
  return std::unexpected(
      policy::Denied{"", "no network was asked for", "ask for a network tier other than none"});
}

model::SignedPlan Permits::signPlan(const model::NetworkPlan& plan) const {
  model::SignedPlan made;
  made.encoded = model::encodePlan(plan);
  made.signature = key_.sign(made.encoded);
  return made;
}

std::optional<model::Limits> Permits::limits(const Ruling& ruling, const Subject& subject) const {
  const policy::Question asked = question(subject);
  const policy::Evaluation made = policy::evaluate(*ruling.policy, asked);
  return made.denied ? std::nullopt : std::optional(made.limits);
}

const model::OfferedImage* Permits::image(const Ruling& ruling, const Subject& subject) const {
  const policy::Question asked = question(subject);
  return policy::evaluate(*ruling.policy, asked).image;
}

model::Limits Permits::mostAllowed(const Ruling& ruling, const Subject& subject) const {
  return policy::mostAllowed(*ruling.policy, question(subject));
}

std::optional<Millis> Permits::mostTime(const Ruling& ruling, const Subject& subject) const {
  return policy::mostTime(*ruling.policy, question(subject));
}

std::string Permits::weaker(const Ruling& ruling, const Subject& subject) const {
  return policy::weakerOf(*ruling.policy, question(subject));
}

std::string Permits::decidingRule(const Ruling& ruling, const Subject& subject) const {
  return policy::decidingRule(*ruling.policy, question(subject));
}

}  // namespace cloister::orchestrator
