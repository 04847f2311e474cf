// SPDX-License-Identifier: Apache-2.0
// …/proxy/18080: the egress policy of a sandbox, in place of OpenSandbox's sidecar.
#include "api/compat/opensandbox/egress.h"

#include <algorithm>
#include <utility>

#include "api/http/problem.h"

namespace cloister::api::compat::opensandbox {
namespace {

namespace json = base::json;

json::value kept(const model::Session& sandbox, std::string_view name) {
  const json::value* value = sandbox.metadata.if_contains(name);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  auto parsed = text == nullptr ? Result<json::value>(nullptr) : base::parseJson(*text);
  return parsed ? *std::move(parsed) : json::value(nullptr);
}

// A session made otherwise has no wish of OpenSandbox's: its network is what it is.
EgressPolicy wishOf(const model::Session& sandbox) {
  const json::value wish = kept(sandbox, kNetwork);
  if (const json::object* object = wish.if_object()) {
    if (auto policy = parseEgressPolicy(*object, "policy")) return *std::move(policy);
  }
  EgressPolicy policy;
  policy.allow_by_default = sandbox.network.tier == "full";
  for (const model::NetworkEntry& entry : sandbox.network.allow) {
    if (std::ranges::find(policy.rules, entry.name, &EgressRule::target) == policy.rules.end())
      policy.rules.push_back({true, entry.name});
  }
  return policy;
}

// The policy in force: the reached names, and the denials, which hold.
Task<EgressPolicy> inForce(Desk& desk, const model::Principal& principal,
                           const model::Session& sandbox) {
  EgressPolicy policy;
  policy.allow_by_default = false;
  for (std::string& name : co_await reachedNames(desk.parts, principal, sandbox.network)) {
    if (name == model::kAnyName) {
      policy.allow_by_default = true;
    } else {
      policy.rules.push_back({true, std::move(name)});
    }
  }
  for (const EgressRule& rule : wishOf(sandbox).rules) {
    if (!rule.allow) policy.rules.push_back(rule);
  }
  co_return policy;
}

Task<Response> statusResponse(Desk& desk, const model::Principal& principal,
                              const model::Session& sandbox) {
  const EgressPolicy policy = co_await inForce(desk, principal, sandbox);
  json::object status{{"status", "ok"},
                      {"mode", policy.allow_by_default ? "allow_all"
                               : policy.rules.empty()  ? "deny_all"
                                                       : "enforcing"},
                      {"enforcementMode", "proxy"},
                      {"policy", toJsonObject(policy)}};
  const json::value cut = kept(sandbox, kNetworkCut);
  if (const json::array* rules = cut.if_array(); rules != nullptr && !rules->empty()) {
    status["cut"] = *rules;
    status["reason"] = "policy does not grant all that was asked for; see cut";
  }
  co_return jsonResponse(200, status);
}

// Changes the network to the granted part of the wish.
Task<Result<model::Session>> apply(Desk& desk, Request& request, model::Session sandbox,
                                   EgressPolicy wish) {
  if (wish.rules.size() > kMostRules) {
    co_return fail(Code::kTooLarge, "an egress policy has at most " + std::to_string(kMostRules) +
                                        " rules; delete some of them");
  }
  GrantedNetwork granted = CO_TRY(co_await grantedPart(desk.parts, request.principal, wish));
  json::object metadata = sandbox.metadata;
  noteNetwork(wish, granted.cut, metadata);
  auto amended = co_await desk.parts.sessions.amend(
      request.principal, sandbox.id, {.metadata = metadata, .network = granted.network});
  if (amended || amended.error().code != Code::kUnsupported) co_return amended;
  // The sandbox has no door: nothing of the wish can be given.
  for (const EgressRule& rule : wish.rules) {
    const bool known =
        std::ranges::find(granted.cut, rule.target, &CutRule::target) != granted.cut.end();
    if (rule.allow && !known) {
      granted.cut.push_back({rule.target,
                             "the sandbox was made without a network; make one whose "
                             "networkPolicy allows a name that policy grants"});
    }
  }
  noteNetwork(wish, granted.cut, metadata);
  co_return co_await desk.parts.sessions.amend(request.principal, sandbox.id,
                                               {.metadata = std::move(metadata)});
}

Task<Result<Response>> show(Desk& desk, Request& request) {
  const model::Session sandbox = CO_TRY(co_await reach(desk, request));
  co_return co_await statusResponse(desk, request.principal, sandbox);
}

Result<json::array> bodyArray(Desk& desk, Request& request, const std::string& of) {
  auto value = TRY(base::parseJson(request.body, {.max_bytes = desk.parts.bounds.body_bytes}));
  if (value.is_array() && !value.get_array().empty()) return std::move(value.get_array());
  return fail(Code::kInvalid, "request body: must be a list of " + of + ", and not empty");
}

Task<Result<Response>> patch(Desk& desk, Request& request) {
  model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const json::array rules = CO_TRY(bodyArray(desk, request, "rules"));
  const auto incoming = CO_TRY(parseEgressRules(rules, "rules"));
  EgressPolicy wish = merged(wishOf(sandbox), incoming);
  const model::Session now =
      CO_TRY(co_await apply(desk, request, std::move(sandbox), std::move(wish)));
  co_return co_await statusResponse(desk, request.principal, now);
}

Task<Result<Response>> remove(Desk& desk, Request& request) {
  model::Session sandbox = CO_TRY(co_await reach(desk, request));
  const json::array targets = CO_TRY(bodyArray(desk, request, "targets"));
  EgressPolicy wish = wishOf(sandbox);
  for (const json::value& target : targets) {
    if (!target.is_string()) co_return fail(Code::kInvalid, "request body: targets are strings");
    const auto name = model::hostPattern(lowerCase(target.get_string()));
    std::erase_if(wish.rules, [&](const EgressRule& rule) {
      return rule.target == (name ? *name : std::string(target.get_string()));
    });
  }
  const model::Session now =
      CO_TRY(co_await apply(desk, request, std::move(sandbox), std::move(wish)));
  co_return co_await statusResponse(desk, request.principal, now);
}

Task<Result<Response>> health(Desk& desk, Request& request) {
  CO_TRY(co_await reach(desk, request));
  co_return empty(200);
}

Task<Result<Response>> noVault(Desk& desk, Request& request) {
  CO_TRY(liveSandbox(desk, request));
  co_return fail(Code::kUnsupported,
                 "the credential vault is not offered; a brokered secret does the same "
                 "(PUT /v1/secrets/{name}, and `secrets` of POST /v1/sessions)");
}

}  // namespace

void noteNetwork(const EgressPolicy& wish, const std::vector<CutRule>& cut,
                 json::object& metadata) {
  metadata[kNetwork] = base::toJson(toJsonObject(wish));
  metadata.erase(kNetworkCut);
  if (!cut.empty()) metadata[kNetworkCut] = base::toJson(toJsonArray(cut));
}

EgressPolicy merged(EgressPolicy wish, const std::vector<EgressRule>& incoming) {
  std::vector<EgressRule> rules;
  const auto add = [&](const EgressRule& rule) {
    if (std::ranges::find(rules, rule.target, &EgressRule::target) == rules.end())
      rules.push_back(rule);
  };
  std::ranges::for_each(incoming, add);
  std::ranges::for_each(wish.rules, add);
  wish.rules = std::move(rules);
  return wish;
}

std::vector<Route> egressRoutes(const DeskPtr& desk) {
  return {
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/18080/policy",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, show)},
      {.method = "PATCH",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/18080/policy",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, patch),
       .json_body = true},
      {.method = "DELETE",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/18080/policy",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, remove),
       .json_body = true},
      {.method = "GET",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/18080/healthz",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(desk, health)},
      {.method = "*",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/18080/credential-vault",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, noVault),
       .json_body = true},
      {.method = "*",
       .pattern = "/opensandbox/v1/sandboxes/{id}/proxy/18080/credential-vault/{rest}",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(desk, noVault),
       .json_body = true},
  };
}

}  // namespace cloister::api::compat::opensandbox
