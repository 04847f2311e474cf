// SPDX-License-Identifier: Apache-2.0
#include "policy/conditions.h"

#include <algorithm>
#include <array>

#include "base/glob.h"
#include "model/run_request.h"

namespace cloister::policy {
namespace {

using Each = bool (*)(std::string_view, const void*);

constexpr std::array<std::string_view, 7> kRoles = {"viewer",       "agent", "operator", "approver",
                                                    "tenant-admin", "admin", "metrics"};
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
  return each(question.request.network.tier, with);
}

bool toolType(const Question& question, Each each, const void* with) {
  const auto found = question.request.metadata.find(std::string(kToolType));
  return found != question.request.metadata.end() && each(found->second, with);
}

bool operation(const Question& question, Each each, const void* with) {
  return each(question.operation, with);
}

const std::array<ListCondition, 9> kListConditions = {{
    {.key = "tenants",
     .list = &Conditions::tenants,
     .in_version_1 = true,
     .any = ofPrincipal<&model::Principal::tenant>},
    {.key = "apps", .list = &Conditions::apps, .any = ofPrincipal<&model::Principal::app>},
    {.key = "agents", .list = &Conditions::agents, .any = ofPrincipal<&model::Principal::agent>},
    {.key = "users", .list = &Conditions::users, .any = ofPrincipal<&model::Principal::user>},
    {.key = "roles", .list = &Conditions::roles, .known = kRoles, .many = true, .any = roles},
    {.key = "languages", .list = &Conditions::languages, .in_version_1 = true, .any = language},
    {.key = "network_tiers",
     .list = &Conditions::network_tiers,
     .in_version_1 = true,
     .known = model::kNetworkTiers,
     .any = networkTier},
    {.key = "tool_types", .list = &Conditions::tool_types, .many = true, .any = toolType},
    {.key = "operations", .list = &Conditions::operations, .known = kOperations, .any = operation},
}};

bool matchesOne(const std::vector<std::string>& globs, std::string_view value) {
  return std::ranges::any_of(
      globs, [&](const std::string& glob) { return base::globMatches(glob, value); });
}

bool isIn(std::string_view value, const void* list) {
  return matchesOne(*static_cast<const std::vector<std::string>*>(list), value);
}

bool names(const std::vector<std::string>& list, const std::string& dependency) {
  return matchesOne(list, dependencyName(dependency));
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

std::string whyNoPattern(std::string_view text) {
  if (text.empty()) return "is empty";
  if (!text.contains('?')) return "";
  return "\"" + std::string(text) + "\" has a ?, which is no pattern; only * is one";
}

std::string_view dependencyName(std::string_view text) {
  return text.substr(0, text.find_first_of("@=<>!~ [;(", 1));
}

}  // namespace cloister::policy
