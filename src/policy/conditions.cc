// SPDX-License-Identifier: Apache-2.0
#include "policy/conditions.h"

#include <algorithm>
#include <array>

namespace cloister::policy {
namespace {

using Each = bool (*)(std::string_view, const void*);

constexpr std::array<std::string_view, 3> kNetworkTiers = {"none", "restricted", "full"};
constexpr std::array<std::string_view, 6> kRoles = {"viewer",   "agent",        "operator",
                                                    "approver", "tenant-admin", "admin"};
constexpr std::string_view kToolType = "tool_type";  // the member of a request's metadata

template <std::string model::Principal::* member>
bool ofPrincipal(const Question& question, Each each, const void* with) {
  return each(question.principal.*member, with);
}

bool roles(const Question& question, Each each, const void* with) {
  return std::ranges::any_of(model::kAllRoles, [&](model::Role role) {
    return question.principal.roles.has(role) && each(model::roleName(role), with);
  });
}

bool language(const Question& question, Each each, const void* with) {
  return each(question.language, with);
}

bool networkTier(const Question& question, Each each, const void* with) {
  return each(question.request.network_tier, with);
}

bool toolType(const Question& question, Each each, const void* with) {
  const auto found = question.request.metadata.find(std::string(kToolType));
  return found != question.request.metadata.end() && each(found->second, with);
}

bool operation(const Question& question, Each each, const void* with) {
  return each(question.operation, with);
}

const std::array<ListCondition, 9> kListConditions = {{
    {"tenants", &Conditions::tenants, true, {}, ofPrincipal<&model::Principal::tenant>},
    {"apps", &Conditions::apps, false, {}, ofPrincipal<&model::Principal::app>},
    {"agents", &Conditions::agents, false, {}, ofPrincipal<&model::Principal::agent>},
    {"users", &Conditions::users, false, {}, ofPrincipal<&model::Principal::user>},
    {"roles", &Conditions::roles, false, kRoles, roles},
    {"languages", &Conditions::languages, true, {}, language},
    {"network_tiers", &Conditions::network_tiers, true, kNetworkTiers, networkTier},
    {"tool_types", &Conditions::tool_types, false, {}, toolType},
    {"operations", &Conditions::operations, false, kOperations, operation},
}};

bool isIn(std::string_view value, const void* list) {
  const auto& values = *static_cast<const std::vector<std::string>*>(list);
  return std::ranges::find(values, value) != values.end();
}

bool names(const std::vector<std::string>& list, const std::string& dependency) {
  return std::ranges::find(list, dependencyName(dependency)) != list.end();
}

}  // namespace

std::span<const ListCondition> listConditions() {
  return kListConditions;
}

bool holds(const ListCondition& condition, const Conditions& match, const Question& question) {
  const std::vector<std::string>& list = match.*condition.list;
  return list.empty() || condition.any(question, isIn, &list);
}

bool dependenciesHold(const Conditions& match, const Question& question) {
  const std::vector<std::string>& asked = question.request.deps;
  if (match.has_dependencies && *match.has_dependencies == asked.empty()) return false;
  if (!match.any_dependency.empty()) {
    return std::ranges::any_of(asked,
                               [&](const auto& d) { return names(match.any_dependency, d); });
  }
  if (!match.only_dependencies.empty()) {
    return !asked.empty() && std::ranges::all_of(asked, [&](const auto& d) {
      return names(match.only_dependencies, d);
    });
  }
  return true;
}

bool sessionHolds(const Conditions& match, const Question& question) {
  const bool in_session = !question.session_id.empty();
  return !match.in_session || *match.in_session == in_session;
}

bool scoreHolds(const Conditions& match, int score) {
  return !match.score_at_least || score >= *match.score_at_least;
}

std::string_view dependencyName(std::string_view text) {
  return text.substr(0, text.find_first_of("@=<>!~ [;(", 1));
}

}  // namespace cloister::policy
