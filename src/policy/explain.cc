// SPDX-License-Identifier: Apache-2.0
#include "policy/explain.h"

#include <algorithm>

#include "model/roles.h"
#include "policy/conditions.h"

namespace cloister::policy {
namespace {

namespace json = base::json;

json::value orNull(std::string_view text) {
  return text.empty() ? json::value(nullptr) : json::value(json::string(text));
}

std::string listed(const std::vector<std::string>& values) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(values.size(), kShown); ++i)
    text += (i == 0 ? "" : ", ") + values[i];
  return values.size() > kShown ? text + ", ..." : text;
}

// The question's values for a condition.
std::string found(const ListCondition& condition, const Question& question) {
  std::vector<std::string> values;
  const auto keep = [](std::string_view value, const void* with) {
    const_cast<std::vector<std::string>*>(static_cast<const std::vector<std::string>*>(with))
        ->emplace_back(value);
    return false;
  };
  condition.any(question, keep, &values);
  std::erase(values, "");
  return values.empty() ? "there is none" : "it is " + listed(values);
}

// Why a rule does not match: its first failing condition; "" if all hold.
std::string missOf(const Rule& rule, const Question& question, int score) {
  const Conditions& match = rule.match;
  for (const ListCondition& condition : listConditions()) {
    if (holds(condition, match, question)) continue;
    return std::string(condition.key) + ": " + found(condition, question) +
           ", and the rule is for " + listed(match.*condition.list);
  }
  if (!dependenciesHold(match, question)) return "dependencies: not those that the rule is for";
  if (!sessionHolds(match, question)) {
    return *match.in_session ? "session: the rule is for programs of sessions"
                             : "session: the rule is for runs alone";
  }
  if (!scoreHolds(match, score)) {
    return "risk: the score is " + std::to_string(score) + ", and the rule is for " +
           std::to_string(*match.score_at_least) + " or more";
  }
  return "";
}

json::array rulesOf(const Policy& policy, const Question& question, const Evaluation& made,
                    Listed which) {
  json::array rules;
  bool decided = false;
  for (const Rule& rule : policy.rules) {
    const std::string miss = missOf(rule, question, made.score);
    if (!miss.empty() && which == Listed::kMatching) continue;
    rules.push_back(json::object{{"name", rule.name},
                                 {"effect", effectName(rule.effect)},
                                 {"why", rule.why},
                                 {"matches", miss.empty()},
                                 {"decides", miss.empty() && !decided},
                                 {"because", orNull(miss)}});
    decided = decided || miss.empty();
  }
  return rules;
}

// "10 (language: python) + 5 (principal: role agent) = 15"
std::string arithmetic(const std::vector<RiskLine>& lines, int score) {
  std::string text;
  for (const RiskLine& line : lines) {
    text += (text.empty() ? "" : " + ") + std::to_string(line.points) + " (" + line.factor + ": " +
            line.what + ")";
  }
  return (text.empty() ? "0" : text) + " = " + std::to_string(score);
}

json::object riskJson(const Policy& policy, const Question& question) {
  std::vector<RiskLine> lines;
  int score = policy.score.value_or(0);
  if (policy.score) {
    lines.push_back({.factor = "engine", .what = policy.name, .points = score});
  } else {
    score = riskOf(policy.risk,
                   {.language = question.language,
                    .request = question.request,
                    .principal = question.principal,
                    .facts = question.risk_facts},
                   &lines);
  }
  json::array terms;
  for (const RiskLine& line : lines) {
    terms.push_back(
        json::object{{"factor", line.factor}, {"what", line.what}, {"points", line.points}});
  }
  json::array tiers;
  for (size_t i = 0; i < kTiers; ++i) {
    const TierSetting& tier = policy.tiers[i];
    tiers.push_back(json::object{
        {"tier", tierName(static_cast<Tier>(i))},
        {"runtime", tier.runtime},
        {"approval", tier.approve.has_value()},
        {"from_score", tier.from_score ? json::value(*tier.from_score) : json::value(nullptr)}});
  }
  return {{"score", score},
          {"arithmetic", arithmetic(lines, score)},
          {"terms", std::move(terms)},
          {"tiers", std::move(tiers)}};
}

json::value approvalJson(const Approval* approval) {
  if (approval == nullptr) return nullptr;
  return json::object{{"roles", json::array(approval->roles.begin(), approval->roles.end())},
                      {"quorum", approval->quorum},
                      {"ttl_seconds", approval->ttl_seconds},
                      {"fallback", approval->fallback}};
}

// "api.example.com:443 tls", in the order in which the rules of the plan are read.
json::value networkJson(const Evaluation& made) {
  if (!made.network) return nullptr;
  json::array destinations;
  for (const model::PlanRule& rule : made.network->rules)
    destinations.push_back(json::string(destinationText(rule.entry)));
  return destinations;
}

const Rule* ruleNamed(const Policy& policy, const std::string& name) {
  const auto found = std::ranges::find(policy.rules, name, &Rule::name);
  return found == policy.rules.end() ? nullptr : &*found;
}

}  // namespace

std::string_view outcomeOf(const Evaluation& made) {
  if (made.denied) return "deny";
  return made.wanted == nullptr ? "allow" : "approve";
}

json::object briefly(const Policy& policy, const Question& question) {
  const Evaluation made = evaluate(policy, question);
  const bool runs = !made.denied;
  const Rule* rule = made.rule;
  std::string reason = rule == nullptr ? "" : rule->why;
  if (made.denied) reason = made.denied->reason;
  return {{"decision", outcomeOf(made)},
          {"rule", orNull(rule == nullptr ? "" : rule->name)},
          {"tier", runs ? json::value(tierName(made.tier)) : json::value(nullptr)},
          {"runtime", runs ? orNull(made.runtime) : json::value(nullptr)},
          {"network", runs ? networkJson(made) : json::value(nullptr)},
          {"reason", reason}};
}

json::object explain(const Policy& policy, const Question& question, Listed listed) {
  const Evaluation made = evaluate(policy, question);
  json::object answer = briefly(policy, question);
  answer["remedy"] = orNull(made.denied ? made.denied->remedy : "");
  answer["image"] = made.denied ? json::value(nullptr) : json::value(imageOf(made).name);
  answer["approval"] = approvalJson(made.wanted);
  answer["policy_id"] = policy.id;
  answer["limits"] = model::limitsObject(made.limits);
  answer["risk"] = riskJson(policy, question);
  answer["rules"] = rulesOf(policy, question, made, listed);
  return answer;
}

json::object differences(const Policy& from, const Policy& to) {
  json::array added;
  json::array removed;
  json::array changed;
  std::vector<std::string> old_order;
  std::vector<std::string> new_order;  // of the rules common to both
  for (const Rule& rule : from.rules) {
    const Rule* now = ruleNamed(to, rule.name);
    if (now == nullptr) {
      removed.push_back(json::string(rule.name));
      continue;
    }
    old_order.push_back(rule.name);
    if (now->canonical == rule.canonical) continue;
    changed.push_back(
        json::object{{"name", rule.name}, {"from", rule.canonical}, {"to", now->canonical}});
  }
  for (const Rule& rule : to.rules) {
    if (ruleNamed(from, rule.name) == nullptr) {
      added.push_back(json::string(rule.name));
    } else {
      new_order.push_back(rule.name);
    }
  }
  return {{"from", from.id},
          {"to", to.id},
          {"same", from.sha256 == to.sha256},
          {"added", std::move(added)},
          {"removed", std::move(removed)},
          {"changed", std::move(changed)},
          {"reordered", old_order != new_order},
          {"settings_changed", from.settings != to.settings}};
}

}  // namespace cloister::policy
