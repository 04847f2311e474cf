// SPDX-License-Identifier: Apache-2.0
#include "policy/decide.h"

#include <algorithm>
#include <array>
#include <optional>

namespace cloister::policy {

// The one place that makes a Permit.
class PermitIssuer {
 public:
  static model::Permit issue(model::PermitFields fields) {
    return model::Permit(std::move(fields));
  }
};

namespace {

using model::Limits;
using model::RunRequest;

constexpr std::string_view kProcess = "process";

bool matches(const std::vector<std::string>& list, std::string_view value) {
  return list.empty() || std::ranges::find(list, value) != list.end();
}

bool matches(const Rule& rule, const Question& question) {
  return matches(rule.tenants, question.principal.tenant) &&
         matches(rule.languages, question.language) &&
         matches(rule.network_tiers, question.request.network_tier);
}

auto firstMatch(const Policy& policy, const Question& question) {
  return std::ranges::find_if(policy.rules,
                              [&](const Rule& each) { return matches(each, question); });
}

// What no node can do yet, whatever a rule says.
std::optional<Denied> beyondUs(const RunRequest& request) {
  if (request.network_tier != "none") {
    return Denied{"",
                  "network tier \"" + request.network_tier +
                      "\" needs egress, and this "
                      "service has none",
                  R"(run it with network_policy {"tier":"none"}, and send what it needs as files)"};
  }
  if (!request.deps.empty()) {
    return Denied{"", "installing dependencies needs a network, and this service has no egress",
                  "leave deps empty; send modules as files, or have them installed in the image"};
  }
  if (!request.runtime.empty() && request.runtime != kProcess) {
    return Denied{"", "runtime \"" + request.runtime + "\" is not offered",
                  R"(leave runtime out, or ask for "process")"};
  }
  if (!request.tier.empty() && request.tier != "Auto") {
    return Denied{"",
                  "tier " + request.tier +
                      " needs stronger isolation than the process "
                      "runtime, the only one offered",
                  "leave tier out or ask for Auto if process isolation is enough for this code"};
  }
  return std::nullopt;
}

struct LimitRow {
  std::string_view name;
  uint64_t asked;
  uint64_t most;
  std::string_view unit;
};

std::optional<Denied> overLimit(const Rule& rule, const Limits& asked) {
  const Limits& most = rule.max;
  const auto millis = [](std::chrono::milliseconds t) { return static_cast<uint64_t>(t.count()); };
  const std::array<LimitRow, 10> rows = {{
      {model::limit_name::kWall, millis(asked.wall), millis(most.wall), "ms"},
      {model::limit_name::kCpuTime, millis(asked.cpu_time), millis(most.cpu_time), "ms"},
      {"cpu_millis", asked.cpu_millis, most.cpu_millis, "thousandths of a core"},
      {model::limit_name::kMemory, asked.memory_bytes, most.memory_bytes, "bytes"},
      {model::limit_name::kDisk, asked.disk_bytes, most.disk_bytes, "bytes"},
      {model::limit_name::kInodes, asked.inodes, most.inodes, "files"},
      {model::limit_name::kFileSize, asked.file_bytes, most.file_bytes, "bytes"},
      {model::limit_name::kOpenFiles, asked.open_files, most.open_files, "files"},
      {model::limit_name::kPids, asked.pids, most.pids, "processes"},
      {model::limit_name::kOutput, asked.output_bytes, most.output_bytes, "bytes"},
  }};
  for (const LimitRow& row : rows) {
    if (row.asked <= row.most) continue;
    const std::string unit = " " + std::string(row.unit);
    return Denied{rule.name,
                  std::string(row.name) + ": " + std::to_string(row.asked) + unit +
                      " is more than this rule allows",
                  "ask for at most " + std::to_string(row.most) + unit};
  }
  return std::nullopt;
}

model::Permit grant(const Policy& policy, const Rule& rule, const Question& question,
                    const Limits& limits) {
  return PermitIssuer::issue({
      .id = question.permit_id,
      .execution_id = question.execution_id,
      .session_id = question.session_id,
      .tenant = question.principal.tenant,
      .policy_id = policy.id,
      .runtime = rule.runtime,
      .image = rule.image,
      .network_tier = question.request.network_tier,
      .limits = limits,
      .spec_sha256 = question.spec_sha256,
      .prestart = question.prestart,
      .not_before = question.now,
      .expires = question.now + question.valid_for,
  });
}

}  // namespace

std::string ruleLanguage(const RunRequest& request, const model::LanguageSet& languages) {
  if (!std::holds_alternative<std::monostate>(request.command)) return "command";
  const model::Language* language = languages.find(request.language);
  return language == nullptr ? "" : language->name;
}

Decision decide(const Policy& policy, const Question& question) {
  if (auto denied = beyondUs(question.request)) return *std::move(denied);
  const auto rule = firstMatch(policy, question);
  if (rule == policy.rules.end() || question.language.empty()) {
    return Denied{"", "no rule of policy " + policy.id + " allows this run",
                  "ask the operator for a rule that does"};
  }
  if (!rule->allow) {
    return Denied{rule->name, rule->why,
                  rule->remedy.empty() ? "ask the operator to change this rule" : rule->remedy};
  }
  if (rule->runtime != kProcess) {
    return Denied{rule->name,
                  "the rule wants runtime \"" + rule->runtime +
                      "\", which no node "
                      "offers",
                  "ask the operator to provide it or to change the rule"};
  }
  Limits limits = question.request.limits;
  model::settle(limits);
  if (auto denied = overLimit(*rule, limits)) return *std::move(denied);
  if (rule->approve && !question.approved) return *rule->approve;
  return grant(policy, *rule, question, limits);
}

std::optional<Denied> refusalOf(const Decision& decision) {
  if (std::holds_alternative<model::Permit>(decision)) return std::nullopt;
  if (const auto* denied = std::get_if<Denied>(&decision)) return *denied;
  const auto& wanted = std::get<NeedsApproval>(decision);
  std::string roles;
  for (const std::string& role : wanted.approver_roles)
    roles += (roles.empty() ? "" : " or ") + role;
  const std::string people =
      wanted.quorum == 1 ? "a principal" : std::to_string(wanted.quorum) + " principals";
  return Denied{.rule = wanted.rule,
                .reason = "it needs approval: " + wanted.reason,
                .remedy = "ask " + people + " with the role " + roles +
                          ", other than you, to approve it, or do without",
                .for_approval = true};
}

std::string decidingRule(const Policy& policy, const Question& question) {
  const auto rule = firstMatch(policy, question);
  return rule == policy.rules.end() ? "" : rule->name;
}

Limits mostAllowed(const Policy& policy, const Question& question) {
  const auto rule = firstMatch(policy, question);
  return rule == policy.rules.end() ? question.request.limits : rule->max;
}

}  // namespace cloister::policy
