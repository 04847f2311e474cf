// SPDX-License-Identifier: Apache-2.0
#include "audit/receipt.h"

#include "base/clock.h"
#include "model/receipt.h"

namespace cloister::audit {
namespace {

namespace json = base::json;

// A value recorded with the acceptance; "" if absent.
std::string accepted(const store::Recorded& recorded, std::string_view name) {
  const json::value* found = recorded.accepted.event.details.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : "";
}

json::value timeOf(int64_t micros) {
  if (micros == 0) return nullptr;
  return json::string(base::formatTime(micros));
}

json::object streamOf(const model::KeptOutput& output, const std::string& sha256) {
  return {{"sha256", sha256}, {"bytes", output.total}};
}

json::object outputsOf(const model::Execution& execution) {
  json::array artifacts;
  for (const model::ArtifactRef& artifact : execution.artifacts) {
    artifacts.push_back({{"id", artifact.id},
                         {"path", artifact.path},
                         {"size", artifact.size},
                         {"sha256", artifact.sha256}});
  }
  const model::Provenance& provenance = execution.provenance;
  return {{"stdout", streamOf(execution.out, provenance.stdout_sha256)},
          {"stderr", streamOf(execution.err, provenance.stderr_sha256)},
          {"all_sha256", provenance.output_sha256},
          {"artifacts", std::move(artifacts)}};
}

json::object chainOf(const model::AuditEntry& entry) {
  return {{"seq", entry.seq}, {"prev", entry.prev}, {"hash", entry.hash}};
}

json::object auditOf(const store::Recorded& recorded) {
  json::object object = {{"accepted", chainOf(recorded.accepted)},
                         {"ended", chainOf(recorded.state)}};
  if (recorded.image) object["image_verified"] = chainOf(*recorded.image);
  return object;
}

json::array approvalsOf(const store::Recorded& recorded) {
  json::array out;
  if (!recorded.approval) return out;
  const model::Escalation& escalation = *recorded.approval;
  for (const model::EscalationDecision& decision : escalation.decisions) {
    if (decision.revoked) continue;  // a revoked decision permitted nothing
    out.push_back({{"escalation", escalation.id},
                   {"bound_to", escalation.digest},
                   {"by", toJsonObject(decision.by)},
                   {"key", decision.by.key_id},
                   {"approve", decision.approve},
                   {"automatic", decision.automatic},
                   {"at", timeOf(decision.at)}});
  }
  return out;
}

json::object requestOf(const store::Recorded& recorded) {
  const model::Execution& execution = recorded.execution;
  const json::value* limits = recorded.accepted.event.details.if_contains("limits");
  return {{"sha256", accepted(recorded, "request_sha256")},
          {"program_sha256", accepted(recorded, "spec_sha256")},
          {"code_sha256", execution.provenance.code_sha256},
          {"language", execution.language},
          {"limits", limits == nullptr ? json::value(nullptr) : *limits}};
}

json::object resultOf(const model::Execution& execution) {
  json::value exit_code = nullptr;
  if (execution.exit_code) exit_code = *execution.exit_code;
  return {{"status", model::statusName(execution.status)},
          {"exit_code", std::move(exit_code)},
          {"signal", execution.signal},
          {"error", execution.error ? execution.error->type : ""}};
}

}  // namespace

Result<json::object> receiptOf(store::Store& store, const store::Scope& scope,
                               const std::string& execution_id, const base::SigningKey& key) {
  const store::Recorded recorded = TRY(store.recorded(scope, execution_id));
  const model::Execution& execution = recorded.execution;
  if (!model::isTerminal(execution.status)) {
    return fail(Code::kConflict,
                "execution " + execution_id + " has not ended: there is a receipt when it has");
  }
  const model::Provenance& provenance = execution.provenance;
  json::object facts = {
      {"execution_id", execution.id},
      {"session_id", execution.session_id},
      {"principal", toJsonObject(execution.principal)},
      {"key", execution.principal.key_id},
      {"request", requestOf(recorded)},
      {"policy", {{"id", provenance.policy_id}, {"rule", accepted(recorded, "rule")}}},
      {"permit_id", provenance.permit_id},
      {"approvals", approvalsOf(recorded)},
      {"sandbox",
       {{"runtime", provenance.runtime},
        {"node", provenance.node},
        {"image_digest", provenance.image_digest},
        {"weakened", json::array(provenance.weakened.begin(), provenance.weakened.end())}}},
      {"result", resultOf(execution)},
      {"outputs", outputsOf(execution)},
      {"usage", toJsonObject(execution.usage)},
      {"times",
       {{"accepted", timeOf(execution.created_at)},
        {"started", timeOf(execution.started_at)},
        {"ended", timeOf(execution.finished_at)}}},
      {"audit", auditOf(recorded)},
  };
  return model::sealReceipt(std::move(facts), key);
}

}  // namespace cloister::audit
