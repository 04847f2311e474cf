// SPDX-License-Identifier: Apache-2.0
#include "store/records/escalation_record.h"

#include "store/records/clean.h"
#include "store/records/members.h"

namespace cloister::store {
namespace {

json::array encodeDecisions(const std::vector<model::EscalationDecision>& decisions) {
  json::array array;
  for (const model::EscalationDecision& each : decisions) {
    json::object decision{{"by", encode(each.by)},   {"person", each.person},
                          {"approve", each.approve}, {"automatic", each.automatic},
                          {"reason", each.reason},   {"at", each.at}};
    if (each.revoked) decision["revoked"] = true;
    array.push_back(std::move(decision));
  }
  return array;
}

void readDecision(Members from, model::EscalationDecision& decision) {
  decode(from.in("by"), decision.by);
  decision.person = from.text("person");
  decision.approve = from.boolean("approve");
  decision.automatic = from.boolean("automatic");
  decision.reason = from.text("reason");
  from.integer("at", decision.at);
  decision.revoked = !from.isNull("revoked") && from.boolean("revoked");
}

json::array encodeLifts(const std::vector<model::WantedOperation>& lifts) {
  json::array array;
  for (const model::WantedOperation& each : lifts)
    array.push_back(json::object{{"operation", each.operation}, {"target", each.target}});
  return array;
}

// Records of before have none.
void readLifts(Members& from, std::vector<model::WantedOperation>& lifts) {
  if (from.isNull("lifts")) return;
  for (const json::value& item : from.array("lifts")) {
    if (!item.is_object()) return from.refuse();
    bool bad = false;
    Members each(item.get_object(), bad);
    lifts.push_back({each.text("operation"), each.text("target")});
    if (bad) return from.refuse();
  }
}

void decodeTimes(Members& from, model::Escalation& e) {
  from.integer("grant_us", e.grant_us);
  from.integer("created_at", e.created_at);
  from.integer("expires_at", e.expires_at);
  from.integer("decided_at", e.decided_at);
  from.integer("grant_expires_at", e.grant_expires_at);
  from.integer("ended_at", e.ended_at);
}

void readEscalation(Members from, model::Escalation& e) {
  e.id = from.text("id");
  const auto status = model::escalationStatusFromName(from.text("status"));
  if (!status) return from.refuse();
  e.status = *status;
  e.operation = from.text("operation");
  e.subject = from.text("subject");
  e.reason = from.text("reason");
  e.display = from.text("display");
  decode(from.in("requester"), e.requester);
  e.requester_person = from.text("requester_person");
  e.execution_id = from.text("execution_id");
  e.session_id = from.text("session_id");
  e.digest = from.text("digest");
  if (!from.isNull("request_sha256")) e.request_sha256 = from.text("request_sha256");
  if (!from.isNull("workspace_sha256")) e.workspace_sha256 = from.text("workspace_sha256");
  e.rule = from.text("rule");
  for (const json::value& role : from.array("roles")) {
    if (!role.is_string()) return from.refuse();
    e.roles.emplace_back(role.get_string());
  }
  readLifts(from, e.lifts);
  from.integer("quorum", e.quorum);
  decodeTimes(from, e);
}

std::unexpected<Error> notOurs(std::string_view what) {
  return fail(Code::kInternal,
              "reading " + std::string(what) + "'s record: its members are not ours");
}

}  // namespace

std::string encodeEscalation(const model::Escalation& e) {
  json::object out = {{"id", e.id},
                      {"status", model::statusName(e.status)},
                      {"operation", e.operation},
                      {"subject", e.subject},
                      {"reason", e.reason},
                      {"display", e.display},
                      {"requester", encode(e.requester)},
                      {"requester_person", e.requester_person},
                      {"execution_id", e.execution_id},
                      {"session_id", e.session_id},
                      {"digest", e.digest},
                      {"rule", e.rule},
                      {"roles", json::array(e.roles.begin(), e.roles.end())},
                      {"quorum", e.quorum},
                      {"decisions", encodeDecisions(e.decisions)},
                      {"grant_us", e.grant_us},
                      {"created_at", e.created_at},
                      {"expires_at", e.expires_at},
                      {"decided_at", e.decided_at},
                      {"grant_expires_at", e.grant_expires_at},
                      {"ended_at", e.ended_at}};
  if (!e.request_sha256.empty()) out["request_sha256"] = e.request_sha256;
  if (!e.workspace_sha256.empty()) out["workspace_sha256"] = e.workspace_sha256;
  if (!e.lifts.empty()) out["lifts"] = encodeLifts(e.lifts);
  return cleanText(base::toJson(out));
}

Result<model::Escalation> decodeEscalation(std::string_view text) {
  const json::value value = TRY(base::parseJson(text, {.max_bytes = size_t{1} << 22}));
  bool bad = !value.is_object();
  model::Escalation e;
  if (!bad) {
    Members from(value.get_object(), bad);
    readEscalation(from, e);
    for (const json::value& item : from.array("decisions")) {
      if (!item.is_object()) return notOurs("an escalation");
      readDecision(Members(item.get_object(), bad), e.decisions.emplace_back());
    }
  }
  if (bad) return notOurs("an escalation");
  return e;
}

std::string encodeEscalationPolicy(const model::EscalationPolicy& policy) {
  return cleanText(base::toJson(json::object{{"agent", policy.agent},
                                             {"auto_approve_safe", policy.auto_approve_safe},
                                             {"set_by", encode(policy.set_by)},
                                             {"set_at", policy.set_at}}));
}

Result<model::EscalationPolicy> decodeEscalationPolicy(std::string_view text) {
  const json::value value = TRY(base::parseJson(text));
  bool bad = !value.is_object();
  model::EscalationPolicy policy;
  if (!bad) {
    Members from(value.get_object(), bad);
    policy.agent = from.text("agent");
    policy.auto_approve_safe = from.boolean("auto_approve_safe");
    decode(from.in("set_by"), policy.set_by);
    from.integer("set_at", policy.set_at);
  }
  if (bad) return notOurs("an escalation policy");
  return policy;
}

}  // namespace cloister::store
