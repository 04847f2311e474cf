// SPDX-License-Identifier: Apache-2.0
#include "store/records/escalation_record.h"

#include "store/records/archive.h"
#include "store/records/shared.h"

namespace cloister::store {

template <class A, Of<model::EscalationDecision> T>
void describe(A& a, T& v) {
  a.in("by", v.by);
  a.text("person", v.person);
  a.flag("approve", v.approve);
  a.flag("automatic", v.automatic);
  a.text("reason", v.reason);
  a.number("at", v.at);
  a.when(v.revoked).flag("revoked", v.revoked);
}

template <class A, Of<model::WantedOperation> T>
void describe(A& a, T& v) {
  a.text("operation", v.operation);
  a.text("target", v.target);
}

template <class A, Of<model::Escalation> T>
void describe(A& a, T& v) {
  a.text("id", v.id);
  a.choice(
      "status", v.status, [](model::EscalationStatus s) { return model::statusName(s); },
      model::escalationStatusFromName);
  a.text("operation", v.operation);
  a.text("subject", v.subject);
  a.text("reason", v.reason);
  a.text("display", v.display);
  a.in("requester", v.requester);
  a.text("requester_person", v.requester_person);
  a.text("execution_id", v.execution_id);
  a.text("session_id", v.session_id);
  a.text("digest", v.digest);
  a.text("rule", v.rule);
  a.texts("roles", v.roles);
  a.number("quorum", v.quorum);
  a.list("decisions", v.decisions);
  a.number("grant_us", v.grant_us);
  a.number("created_at", v.created_at);
  a.number("expires_at", v.expires_at);
  a.number("decided_at", v.decided_at);
  a.number("grant_expires_at", v.grant_expires_at);
  a.number("ended_at", v.ended_at);
  a.when(!v.request_sha256.empty()).text("request_sha256", v.request_sha256);
  a.when(!v.workspace_sha256.empty()).text("workspace_sha256", v.workspace_sha256);
  a.when(!v.lifts.empty()).list("lifts", v.lifts);
  a.when(!v.program.empty()).text("program", v.program);
  a.when(!v.ended_reason.empty()).text("ended_reason", v.ended_reason);
}

template <class A, Of<model::EscalationPolicy> T>
void describe(A& a, T& v) {
  a.text("agent", v.agent);
  a.flag("auto_approve_safe", v.auto_approve_safe);
  a.in("set_by", v.set_by);
  a.number("set_at", v.set_at);
}

std::string encodeEscalation(const model::Escalation& e) {
  return recordText(e);
}

Result<model::Escalation> decodeEscalation(std::string_view text) {
  return recordValue<model::Escalation>(text, size_t{1} << 22, "an escalation's record");
}

std::string encodeEscalationPolicy(const model::EscalationPolicy& policy) {
  return recordText(policy);
}

Result<model::EscalationPolicy> decodeEscalationPolicy(std::string_view text) {
  return recordValue<model::EscalationPolicy>(text, base::JsonLimits{}.max_bytes,
                                              "an escalation policy's record");
}

}  // namespace cloister::store
