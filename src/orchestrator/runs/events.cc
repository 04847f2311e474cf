// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/runs/events.h"

#include "model/tool.h"

namespace cloister::orchestrator {
namespace {

namespace json = base::json;

model::AuditEvent about(std::string_view action, const model::Execution& execution,
                        json::object details) {
  if (!execution.session_id.empty()) details["session_id"] = execution.session_id;
  if (execution.provenance.nested) details["nested"] = true;
  if (execution.provenance.fresh) details[model::kSandboxMember] = model::kFreshSandbox;
  if (!execution.parent_id.empty()) details["parent_id"] = execution.parent_id;
  if (execution.depth > 0) details["depth"] = execution.depth;
  if (const auto* tool = execution.metadata.if_contains(model::kToolMember))
    details["tool"] = *tool;
  return {std::string(action), execution.id, execution.principal, std::move(details)};
}

json::object factsOf(const model::Execution& execution, const RunFacts& facts) {
  return {{"request_sha256", facts.request_sha256},
          {"code_sha256", execution.provenance.code_sha256},
          {"spec_sha256", facts.spec_sha256},
          {"language", execution.language},
          {"limits", toJsonObject(facts.limits)},
          {"policy", execution.provenance.policy_id},
          {"rule", facts.rule}};
}

}  // namespace

model::AuditEvent acceptedEvent(const model::Execution& execution, const RunFacts& facts) {
  return about("execution.accepted", execution, factsOf(execution, facts));
}

model::AuditEvent deniedEvent(const model::Execution& execution, const RunFacts& facts) {
  json::object details = factsOf(execution, facts);
  if (execution.error) details["reason"] = execution.error->message;
  return about("execution.denied", execution, std::move(details));
}

model::AuditEvent blockedEvent(const model::Execution& execution, const RunFacts& facts) {
  return about("execution.blocked", execution, factsOf(execution, facts));
}

model::AuditEvent resumedEvent(const model::Execution& execution, const std::string& escalation) {
  return about("execution.resumed", execution, {{"escalation", escalation}});
}

model::AuditEvent startedEvent(const model::Execution& execution, const model::NodeOffer& node) {
  const std::string& digest = execution.provenance.image_digest;
  return about("execution.started", execution,
               {{"permit", execution.provenance.permit_id},
                {"policy", execution.provenance.policy_id},
                {"node", node.node},
                {"image", execution.provenance.image},
                {"image_digest", digest.empty() ? node.image_digest : digest},
                {"weakened", json::array(node.weakened.begin(), node.weakened.end())}});
}

model::AuditEvent finishedEvent(const model::Execution& execution) {
  json::object details = {{"status", model::statusName(execution.status)},
                          {"output_sha256", execution.provenance.output_sha256},
                          {"usage", toJsonObject(execution.usage)}};
  if (execution.exit_code) details["exit_code"] = *execution.exit_code;
  if (!execution.signal.empty()) details["signal"] = execution.signal;
  if (execution.error) details["error"] = execution.error->type;
  json::array artifacts;
  for (const model::ArtifactRef& artifact : execution.artifacts) {
    artifacts.push_back({{"id", artifact.id}, {"sha256", artifact.sha256}});
  }
  details["artifacts"] = std::move(artifacts);
  return about("execution.finished", execution, std::move(details));
}

model::AuditEvent revokedEvent(const model::Execution& execution, bool ended) {
  return {.action = "execution.revoked",
          .subject = execution.id,
          .principal = execution.principal,
          .details = {{"ended", ended}}};
}

model::AuditEvent cancelEvent(const model::Execution& execution, const model::Principal& by) {
  model::AuditEvent event = about(
      "execution.cancel_requested", execution,
      {{"status", model::statusName(execution.status)}, {"of_tenant", execution.principal.tenant}});
  event.principal = by;
  return event;
}

}  // namespace cloister::orchestrator
