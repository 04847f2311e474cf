// SPDX-License-Identifier: Apache-2.0
// /v1/escalations: requests for more rights, the votes on them, and the policy in an agent's way.
#include <utility>

#include "api/rest/requests.h"
#include "model/request_shown.h"
#include "policy/approval.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr size_t kMaxAgent = 256;

Result<json::object> bodyOf(RestParts& parts, const Request& request) {
  if (!request.has_body) return json::object();
  return parseObject(request.body, parts.bounds);
}

json::array shownChannels(const RestParts& parts) {
  json::array shown;
  for (const std::string& each : parts.notified)
    shown.push_back(json::string(each));
  return shown;
}

// Approvers and the requester.
bool maySeeAll(const model::Principal& who, const model::Escalation& escalation) {
  const bool asked = escalation.requester.tenant == who.tenant &&
                     escalation.requester.key_id == who.key_id && !who.key_id.empty();
  const bool decides = who.may(Permission::kEscalationDecide) && policy::mayDecide(escalation, who);
  return asked || decides;
}

// Values of a run's environment may be secrets.
json::object shownTo(const model::Principal& who, const model::Escalation& escalation) {
  json::object shown = model::toJsonObject(escalation);
  if (maySeeAll(who, escalation)) return shown;
  shown["display"] = model::withoutValues(escalation.display);
  return shown;
}

// A run requested by hand has the bounds and the defaults of any run.
Result<> settleRun(const RestParts& parts, model::EscalationRequest& request) {
  if (!request.run) return {};
  auto run = model::parseRunRequest(*request.run, parts.bounds);
  if (run) {
    request.run = model::toJsonObject(*run);
    return {};
  }
  if (!run.error().field.empty()) run.error().field.insert(0, "request.");
  return std::unexpected(std::move(run).error());
}

Task<Result<Response>> create(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  model::EscalationRequest wanted = CO_TRY(model::parseEscalationRequest(body));
  CO_TRY(settleRun(parts, wanted));
  auto made = co_await parts.escalations.request(request.principal, std::move(wanted));
  const model::Escalation escalation = CO_TRY(std::move(made));
  json::object answer = model::toJsonObject(escalation);
  const auto usual = CO_TRY(parts.escalations.usualWait(request.principal));
  answer["usual_wait_seconds"] = usual ? json::value(*usual) : json::value(nullptr);
  answer["notified"] = shownChannels(parts);
  co_return jsonResponse(201, answer).with("Location", "/v1/escalations/" + escalation.id);
}

// Whether approvers once said yes, whatever became of it.
bool wasApproved(const model::Escalation& e) {
  using enum model::EscalationStatus;
  if (e.status == kApproved || e.status == kUsed) return true;
  return e.status == kExpired && e.approvals() >= e.quorum;
}

bool areSimilar(const model::Escalation& a, const model::Escalation& b) {
  return a.requester.tenant == b.requester.tenant && a.requester.sameAgent(b.requester) &&
         a.requester.user == b.requester.user && a.operation == b.operation && a.rule == b.rule;
}

// The last approved request of this requester for the same operation, stopped by the same rule;
// null without one among the newest. Approvers compare the two.
Result<json::value> similarTo(RestParts& parts, const Request& request,
                              const model::Escalation& escalation) {
  constexpr uint32_t kLooked = 200;
  const auto earlier =
      TRY(parts.escalations.list(request.principal, {.status = std::nullopt,
                                                     .agent = escalation.requester.agent,
                                                     .limit = kLooked,
                                                     .before_seq = escalation.seq}));
  for (const model::Escalation& each : earlier) {
    if (!wasApproved(each) || !areSimilar(each, escalation)) continue;
    return json::object{
        {"id", each.id},
        {"subject", each.subject},
        {"execution_id",
         each.execution_id.empty() ? json::value(nullptr) : json::value(each.execution_id)},
        {"decided_at", base::formatTime(each.decided_at)}};
  }
  return nullptr;
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  const std::string tenant = queryText(request, "tenant").value_or("");
  const model::Escalation escalation =
      CO_TRY(parts.escalations.get(request.principal, tenant, request.params[0]));
  json::object shown = shownTo(request.principal, escalation);
  shown["similar"] = CO_TRY(similarTo(parts, request, escalation));
  co_return jsonResponse(200, shown);
}

Task<Result<Response>> showRequest(RestParts& parts, Request& request) {
  const std::string tenant = queryText(request, "tenant").value_or("");
  const model::Escalation escalation =
      CO_TRY(parts.escalations.get(request.principal, tenant, request.params[0]));
  if (!maySeeAll(request.principal, escalation)) {
    co_return fail(Code::kDenied, "reading what " + escalation.id +
                                      " asks for: only those who may decide it, and who asked, see "
                                      "all of it");
  }
  const json::object asked = CO_TRY(parts.escalations.requestOf(escalation));
  json::value workspace = CO_TRY(parts.escalations.workspaceOf(escalation));
  co_return jsonResponse(200, model::shownRequest(escalation, asked, std::move(workspace)));
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  store::EscalationQuery query;
  const ListCursor cursors = cursorOf(parts, request.principal, "escalations");
  CO_TRY(readPage(request, cursors, query));
  if (const auto status = queryText(request, "status")) {
    query.status = model::escalationStatusFromName(*status);
    if (!query.status) {
      co_return fail(Code::kInvalid,
                     "query parameter status: must be pending, approved, denied, expired or used",
                     "query.status");
    }
  }
  const auto found = CO_TRY(parts.escalations.list(request.principal, query));
  json::array items;
  for (const model::Escalation& each : found)
    items.push_back(shownTo(request.principal, each));
  json::value cursor = nullptr;
  if (found.size() == query.limit) cursor = CO_TRY(cursors.before(found.back().seq));
  co_return jsonResponse(
      200, json::object{{"escalations", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

Task<Result<Response>> decide(RestParts& parts, Request& request, bool approve) {
  const json::object body = CO_TRY(bodyOf(parts, request));
  model::Vote vote = CO_TRY(model::parseVote(body, !approve));
  const std::string tenant = queryText(request, "tenant").value_or("");
  auto decided = co_await parts.escalations.decide(request.principal, tenant, request.params[0],
                                                   approve, std::move(vote));
  const model::Escalation escalation = CO_TRY(std::move(decided));
  co_return jsonResponse(200, model::toJsonObject(escalation));
}

std::function<Task<void>(Request&)> noted(RestParts& parts, bool approve) {
  return [&parts, approve](Request& request) {
    return parts.escalations.noteRefused(
        request.principal, queryText(request, "tenant").value_or(""), request.params[0], approve);
  };
}

Task<Result<Response>> approve(RestParts& parts, Request& request) {
  return decide(parts, request, true);
}

Task<Result<Response>> deny(RestParts& parts, Request& request) {
  return decide(parts, request, false);
}

// The policy, and what the agent's requests meet by it, its sandbox and its level. `effective` is
// null for rules that cannot be read: these refuse every request.
json::object shownPolicy(RestParts& parts, const Request& request,
                         const model::EscalationPolicy& policy) {
  json::object answer = model::toJsonObject(policy);
  answer["effective"] = nullptr;
  const auto now = parts.escalations.autoApprovalOf(request.principal, policy.agent);
  if (!now) return answer;
  answer["effective"] =
      json::object{{"auto_approve", now->safe ? "safe" : "none"},
                   {"by", now->by},
                   {"level", now->level.empty() ? json::value(nullptr) : json::value(now->level)}};
  return answer;
}

Task<Result<Response>> showPolicy(RestParts& parts, Request& request) {
  const model::EscalationPolicy policy =
      CO_TRY(parts.escalations.policyOf(request.principal, request.params[0]));
  co_return jsonResponse(200, shownPolicy(parts, request, policy));
}

Task<Result<Response>> setPolicy(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  const bool safe = CO_TRY(model::parseAutoApprove(body));
  const std::string& agent = request.params[0];
  if (agent.empty() || agent.size() > kMaxAgent) {
    co_return fail(Code::kInvalid, "agent: must be 1 to 256 bytes", "url.agent");
  }
  auto set = co_await parts.escalations.setPolicy(request.principal, agent, safe);
  const model::EscalationPolicy policy = CO_TRY(std::move(set));
  co_return jsonResponse(200, shownPolicy(parts, request, policy));
}

}  // namespace

std::vector<Route> escalationRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "POST",
       .pattern = "/v1/escalations",
       .access = needs(Permission::kEscalationRequest),
       .query = {},
       .handle = with(create),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/escalations",
       .access = needs(Permission::kEscalationRead),
       .query = {"status", "agent", "limit", "cursor"},
       .handle = with(list)},
      {.method = "GET",
       .pattern = "/v1/escalations/{id}",
       .access = needs(Permission::kEscalationRead),
       .query = {"tenant"},
       .handle = with(show)},
      {.method = "GET",
       .pattern = "/v1/escalations/{id}/request",
       .access = needs(Permission::kEscalationRead),
       .query = {"tenant"},
       .handle = with(showRequest)},
      {.method = "POST",
       .pattern = "/v1/escalations/{id}:approve",
       .access = needs(Permission::kEscalationDecide),
       .query = {"tenant"},
       .handle = with(approve),
       .json_body = true,
       .lacking = noted(parts, true)},
      {.method = "POST",
       .pattern = "/v1/escalations/{id}:deny",
       .access = needs(Permission::kEscalationDecide),
       .query = {"tenant"},
       .handle = with(deny),
       .json_body = true,
       .lacking = noted(parts, false)},
      {.method = "GET",
       .pattern = "/v1/agents/{agent}/escalation-policy",
       .access = needs(Permission::kEscalationRead),
       .query = {},
       .handle = with(showPolicy)},
      {.method = "PUT",
       .pattern = "/v1/agents/{agent}/escalation-policy",
       .access = needs(Permission::kEscalationManage),
       .query = {},
       .handle = with(setPolicy),
       .json_body = true},
  };
}

}  // namespace cloister::api
