// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/egress/attempts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/crypto.h"
#include "model/shown_text.h"

namespace cloister::orchestrator {
namespace {

using wire::egress::Attempts;
namespace json = base::json;

constexpr size_t kMostHost = 300;
constexpr size_t kMostReason = 500;

DoorOwner ourselves() {
  return {
      .principal = {.tenant = "system", .app = "cloister", .agent = "", .user = "", .key_id = ""},
      .execution_id = "",
      .session_id = ""};
}

json::value shownOrNull(const std::string& text, size_t most) {
  return text.empty() ? json::value(nullptr) : json::value(model::safeText(text, most));
}

json::object shown(const Attempts& each) {
  return {{"at", each.at},
          {"host", model::safeText(each.host, kMostHost)},
          {"address", shownOrNull(each.address, kMostHost)},
          {"port", each.port},
          {"transport", model::safeText(each.transport, kMostHost)},
          {"allowed", each.allowed},
          {"rule", shownOrNull(each.rule, kMostHost)},
          {"reason", shownOrNull(each.reason, kMostReason)},
          {"plan_sha256", each.plan_sha256},
          {"count", each.count},
          {"bytes_in", each.bytes_in},
          {"bytes_out", each.bytes_out}};
}

model::AuditEvent rowOf(uint64_t batch, const std::string& permit, const DoorOwner& owner) {
  json::object details = {{"batch", batch}, {"permit", permit}, {"attempts", json::array()}};
  if (!owner.session_id.empty()) details["session_id"] = owner.session_id;
  return {.action = kAttemptsAction,
          .subject = owner.subject(),
          .principal = owner.principal,
          .details = std::move(details)};
}

}  // namespace

std::vector<model::AuditEvent> attemptEvents(const wire::egress::Batch& batch,
                                             const OwnerOf& owner_of) {
  std::vector<model::AuditEvent> events;
  std::map<std::string, size_t> open;  // row of a permit with room
  for (const Attempts& each : batch.attempts) {
    const auto row = open.find(each.permit);
    size_t at = row == open.end() ? events.size() : row->second;
    if (at < events.size() && events[at].details["attempts"].as_array().size() >= kAttemptsOfRow)
      at = events.size();
    if (at == events.size()) {
      const DoorOwner* owner = owner_of(each.permit);
      events.push_back(rowOf(batch.number, model::safeText(each.permit, kMostHost),
                             owner == nullptr ? ourselves() : *owner));
    }
    open[each.permit] = at;
    events[at].details["attempts"].as_array().push_back(shown(each));
  }
  if (batch.left_out == 0) return events;
  // Of all sandboxes together: no tenant's row may count another tenant's attempts.
  events.push_back(rowOf(batch.number, "", ourselves()));
  events.back().details["left_out"] = batch.left_out;
  return events;
}

uint64_t batchOf(const model::AuditEvent& event) {
  const json::value* batch = event.details.if_contains("batch");
  boost::system::error_code error;
  const auto number = batch == nullptr ? 0 : batch->to_number<uint64_t>(error);
  return error ? 0 : number;
}

model::AuditEvent plannedEvent(const DoorOwner& owner, const model::NetworkPlan& plan,
                               std::string_view why) {
  json::array rules;
  for (const model::PlanRule& each : plan.rules) {
    if (std::ranges::find(rules, json::value(each.rule)) == rules.end())
      rules.push_back(json::value(each.rule));
  }
  json::object details = {{"permit", plan.permit},
                          {"generation", plan.generation},
                          {"plan_sha256", digestOf(plan)},
                          {"tier", plan.tier},
                          {"policy", plan.policy_id},
                          {"rules", std::move(rules)},
                          {"why", why}};
  if (!owner.session_id.empty()) details["session_id"] = owner.session_id;
  return {.action = "network.planned",
          .subject = owner.subject(),
          .principal = owner.principal,
          .details = std::move(details)};
}

std::string digestOf(const model::NetworkPlan& plan) {
  return base::sha256Hex(model::encodePlan(plan));
}

}  // namespace cloister::orchestrator
