// SPDX-License-Identifier: Apache-2.0
#include "policy/decide.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "base/crypto.h"
#include "base/glob.h"
#include "model/dependency.h"
#include "model/tool.h"
#include "policy/conditions.h"
#include "policy/network_plan.h"
#include "policy/secret_grants.h"

namespace cloister::policy {

// The only place that makes a Permit.
class PermitIssuer {
 public:
  static model::Permit issue(model::PermitFields fields,
                             std::optional<model::NetworkPlan> network) {
    return {std::move(fields), std::move(network)};
  }
};

namespace {

using model::Limits;
using model::RunRequest;

constexpr std::string_view kProcess = "process";
constexpr std::string_view kGvisor = "gvisor";
constexpr std::string_view kMicrovm = "microvm";
constexpr std::string_view kNoNetwork = "none";

int scoreOf(const Policy& policy, const Question& question) {
  if (policy.score) return *policy.score;
  return riskOf(policy.risk, {.language = question.language,
                              .request = question.request,
                              .principal = question.principal,
                              .facts = question.risk_facts});
}

// What the service itself runs to install dependencies (orchestrator/deps). The operator's rules
// have decided about the request that has the dependencies. Its network is the package gateway.
const Rule& installerRule() {
  static const Rule kRule = [] {
    Rule rule;
    rule.name = "installs dependencies";
    rule.why = "the service installs the packages of a permitted request";
    rule.match.network_tiers = {"restricted"};
    rule.effect = Effect::kAllow;
    rule.tier = Tier::kAuto;
    rule.images = {"*"};
    rule.max = model::defaultBounds().max;
    return rule;
  }();
  return kRule;
}

const Rule* firstMatch(const Policy& policy, const Question& question, int score) {
  if (question.principal.tenant == model::kInstallerTenant) return &installerRule();
  const auto found = std::ranges::find_if(
      policy.rules, [&](const Rule& each) { return matches(each, question, score); });
  return found == policy.rules.end() ? nullptr : &*found;
}

// Dependencies that this service cannot install, whatever a rule says.
std::optional<Denied> beyondUs(const Question& question) {
  if (question.request.deps.empty()) return std::nullopt;
  const auto ecosystem = model::ecosystemOf(question.language);
  const bool npm = ecosystem == model::Ecosystem::kNpm;
  const auto offered = question.packages == nullptr ? std::vector<model::Ecosystem>()
                                                    : question.packages->ecosystems();
  // Other languages have no dependencies: the request is refused by its form.
  if (!offered.empty() && !ecosystem) return std::nullopt;
  if (std::ranges::find(offered, ecosystem.value_or(model::Ecosystem::kPypi)) != offered.end()) {
    return std::nullopt;
  }
  return Denied{"", "this service has no index of packages, so it installs no dependencies",
                std::string("have ") + (npm ? "packages.npm.registry" : "packages.pypi.index") +
                    " configured; or leave deps empty, and send modules as files"};
}

// Advice on making a runtime available.
struct RuntimeAdvice {
  std::string_view runtime;
  std::string_view advice;
};
constexpr std::array<RuntimeAdvice, 2> kAdvice = {{
    {"gvisor", "have runsc installed on the node (cloister doctor says what is missing)"},
    {"microvm",
     "have QEMU or Firecracker and an image on the node (cloister doctor says what is missing)"},
}};

std::string adviceFor(std::string_view runtime) {
  for (const RuntimeAdvice& row : kAdvice) {
    if (row.runtime == runtime) return std::string(row.advice);
  }
  return "ask for a runtime that is offered (GET /v1/node)";
}

bool offers(const Question& question, std::string_view runtime) {
  if (question.runtimes == nullptr || question.runtimes->empty()) return runtime == kProcess;
  return std::ranges::find(*question.runtimes, runtime) != question.runtimes->end();
}

// The rule's tier, or the score's; higher if the request asks for a higher tier.
Tier tierOf(const Policy& policy, const Rule& rule, const Question& question, int score) {
  Tier tier = rule.tier.value_or(Tier::kAuto);
  for (size_t i = 0; !rule.tier && i < kTiers; ++i) {
    const auto& from = policy.tiers[i].from_score;
    if (from && score >= *from) tier = static_cast<Tier>(i);
  }
  return std::max(tier, tierFromName(question.request.tier).value_or(Tier::kAuto));
}

std::string_view stronger(std::string_view one, std::string_view other) {
  return runtimeStrength(one).value_or(-1) < runtimeStrength(other).value_or(-1) ? other : one;
}

// In a session's sandbox, our own program serves files.
bool servesFiles(const Question& question) {
  return !question.inside.empty() && question.operation == "files";
}

// "risk medium of tool x": the reason of a call's tier. "" if the tier was requested.
std::string riskOfTool(const RunRequest& request) {
  const auto member = [&](std::string_view name) {
    const auto found = request.metadata.find(std::string(name));
    return found == request.metadata.end() ? std::string() : found->second;
  };
  if (member(model::kRiskTierMember).empty()) return {};
  return "risk " + member(model::kRiskMember) + " of tool " + member(model::kToolMember);
}

// The reason for asking a person: the rule's own, or the reason of a tier that requires an
// approval.
std::string reasonOf(const Evaluation& made, const Question& question) {
  if (made.rule->effect == Effect::kApprove) return made.rule->why;
  const std::string tier =
      " tier " + std::string(tierName(made.tier)) + ", which wants an approval";
  if (tierFromName(question.request.tier) == made.tier) {
    const std::string risk = riskOfTool(question.request);
    return (risk.empty() ? "the request asks for" : risk + " needs") + tier;
  }
  if (made.rule->tier) return "rule " + made.rule->name + " sets" + tier;
  return "score " + std::to_string(made.score) + " needs" + tier;
}

// The runtime requested explicitly, which no weaker runtime may replace.
std::string_view askedFor(const Policy& policy, const Question& question) {
  const RunRequest& request = question.request;
  std::string_view least = stronger(kProcess, request.runtime);
  const auto tier = tierFromName(request.tier);
  if (tier && riskOfTool(request).empty()) {
    least = stronger(least, policy.tiers[static_cast<size_t>(*tier)].runtime);
  }
  return request.nested ? stronger(least, kGvisor) : least;
}

// `policy.allow_weaker`: uses `runtime` if the node does not offer the runtime required by policy.
bool weakens(const Policy& policy, const Question& question, std::string_view runtime,
             const std::string& needed, Evaluation& made) {
  if (!policy.allow_weaker || offers(question, made.runtime)) return false;
  if (stronger(runtime, askedFor(policy, question)) != runtime) return false;
  made.weaker = "runtime " + std::string(runtime) + " in place of " + std::string(made.runtime) +
                ", which " + needed + " needs and this node does not offer (policy.allow_weaker)";
  made.runtime = runtime;
  return true;
}

// Calls weakens() with the node's strongest runtime.
bool weakensToOffered(const Policy& policy, const Question& question, const std::string& needed,
                      Evaluation& made) {
  std::string_view best;
  for (const std::string_view runtime : {kProcess, kGvisor, kMicrovm}) {
    const bool weaker = stronger(runtime, made.runtime) == made.runtime;
    if (weaker && offers(question, runtime)) best = runtime;
  }
  return !best.empty() && weakens(policy, question, best, needed, made);
}

// A session's sandbox cannot change its runtime. If policy now requires a stronger runtime, no
// program runs there; file operations still work, so that users can move their files.
std::optional<Denied> staysInside(const Policy& policy, const Question& question,
                                  const std::string& needed, Evaluation& made) {
  const std::string wanted(made.runtime);
  const bool serves = servesFiles(question) || stronger(question.inside, wanted) == question.inside;
  if (!serves && weakens(policy, question, question.inside, needed, made)) return std::nullopt;
  made.runtime = question.inside;
  if (serves) return std::nullopt;
  return Denied{made.rule->name,
                "the session's runtime \"" + question.inside + "\" is weaker than \"" + wanted +
                    "\", which " + needed + " needs by now",
                "move the session (POST /v1/sessions/{id}:move, cloister session move), or make a "
                "new one"};
}

// Chooses a runtime at least as strong as the tier's, the rule's and the request's.
std::optional<Denied> chooseRuntime(const Policy& policy, const Question& question,
                                    Evaluation& made) {
  const Rule& rule = *made.rule;
  const std::string& of_tier = policy.tiers[static_cast<size_t>(made.tier)].runtime;
  const std::string& asked = question.request.runtime;
  if (!rule.runtime.empty() && !runtimeStrength(rule.runtime)) {
    return Denied{rule.name,
                  "the rule wants runtime \"" + rule.runtime + "\", which no node offers",
                  "ask the operator to provide it or to change the rule"};
  }
  if (!asked.empty() && !runtimeStrength(asked)) {
    return Denied{rule.name, "runtime \"" + asked + "\" is not offered", adviceFor(asked)};
  }
  made.runtime = stronger(of_tier, rule.runtime);
  const std::string risk = riskOfTool(question.request);
  std::string needed = "tier " + std::string(tierName(made.tier)) +
                       (risk.empty() ? " of rule " + rule.name : " for " + risk);
  if (question.request.nested && made.runtime == kProcess) {
    // Nested sandboxes require a kernel other than the host's.
    made.runtime = offers(question, kGvisor) || !offers(question, kMicrovm) ? kGvisor : kMicrovm;
    needed = "a session with nested sandboxes";
  }
  if (!asked.empty() && stronger(asked, made.runtime) != asked) {
    return Denied{rule.name,
                  "runtime \"" + asked + "\" is weaker than \"" + std::string(made.runtime) +
                      "\", which " + needed + " needs",
                  "leave runtime out"};
  }
  made.runtime = stronger(made.runtime, asked);
  if (!question.inside.empty()) return staysInside(policy, question, needed, made);
  if (offers(question, made.runtime)) return std::nullopt;
  if (weakensToOffered(policy, question, needed, made)) return std::nullopt;
  const std::string by = asked == made.runtime ? "asked for here" : "which " + needed + " needs";
  return Denied{
      rule.name,
      "runtime \"" + std::string(made.runtime) + "\", " + by + ", is not offered by this node",
      adviceFor(made.runtime)};
}

// The requested image, if the rule permits the image, or else the rule's.
std::optional<Denied> chooseImage(const Question& question, Evaluation& made) {
  if (servesFiles(question)) return std::nullopt;
  const Rule& rule = *made.rule;
  const std::string& asked = question.request.image;
  const std::string& name = asked.empty() ? rule.image : asked;
  const auto allowed = [&](const std::string& glob) { return base::globMatches(glob, name); };
  if (name != rule.image && std::ranges::none_of(rule.images, allowed)) {
    return Denied{rule.name, "image \"" + name + "\" is not one that this rule allows",
                  "leave image out, or ask the operator to add it to the rule's images"};
  }
  if (name == model::kHostImage) return std::nullopt;
  const auto* images = question.images;
  const auto found = images == nullptr
                         ? decltype(images->begin()){}
                         : std::ranges::find(*images, name, &model::OfferedImage::name);
  if (images == nullptr || found == images->end()) {
    return Denied{rule.name, "image \"" + name + "\" is not on this node",
                  "ask for one of GET /v1/images, or have it imported (cloister image import)"};
  }
  if (made.runtime == kMicrovm && !found->machines) {
    return Denied{rule.name,
                  "image \"" + name + "\" was imported without what virtual machines need",
                  "have it imported anew where mksquashfs is installed"};
  }
  made.image = &*found;
  return std::nullopt;
}

// A program or a reader within a sandbox uses the sandbox's network, whose plan follows the policy.
std::optional<Denied> chooseNetwork(const Policy& policy, const Question& question,
                                    Evaluation& made) {
  if (question.request.network.tier == kNoNetwork || !question.inside.empty()) return std::nullopt;
  auto plan = networkPlan(policy, *made.rule, question);
  if (!plan) return std::move(plan).error();
  made.network = *std::move(plan);
  return addBrokered(*made.rule, question, *made.network);
}

// Only sandboxes of the runtime "process" get dependency layers so far.
std::optional<Denied> overDependencies(const Question& question, const Evaluation& made) {
  if (question.request.deps.empty() || !question.inside.empty() || made.runtime == kProcess)
    return std::nullopt;
  return Denied{made.rule->name,
                "runtime \"" + std::string(made.runtime) + "\" has no dependency layers yet",
                "leave deps empty, or ask for less isolation where policy allows it"};
}

std::optional<Denied> overOperation(const Rule& rule, const Question& question) {
  const auto& allowed = rule.operations;
  if (allowed.empty() || std::ranges::find(allowed, question.operation) != allowed.end())
    return std::nullopt;
  return Denied{rule.name,
                "operation \"" + std::string(question.operation) + "\" is not allowed by this rule",
                "do without it, or ask the operator to add it to the rule's operations"};
}

std::optional<Denied> overLimit(const Rule& rule, const Limits& asked) {
  for (const model::LimitKind& field : model::limitKinds()) {
    const uint64_t wanted = field.get(asked);
    const uint64_t most = field.get(rule.max);
    if (wanted <= most) continue;
    const std::string unit = " " + std::string(field.unit);
    return Denied{rule.name,
                  std::string(field.name) + ": " + std::to_string(wanted) + unit +
                      " is more than this rule allows",
                  "ask for at most " + std::to_string(most) + unit};
  }
  return std::nullopt;
}

// Unnamed limits become the smaller of the default and the rule's `max`.
void fitToRule(const Rule& rule, const RunRequest& request, Limits& limits) {
  static const size_t kCpuTime = model::limitIndex(model::limit_name::kCpuTime);
  for (size_t i = 0; i < model::kLimitCount; ++i) {
    if (request.named_limits.test(i)) continue;
    const model::LimitKind& field = model::limitKinds()[i];
    field.set(limits, std::min(field.get(limits), field.get(rule.max)));
  }
  if (request.named_limits.test(kCpuTime)) return;
  Limits derived = limits;
  derived.cpu_time = {};
  model::settle(derived);
  limits.cpu_time = std::min(limits.cpu_time, derived.cpu_time);
}

model::Permit grant(const Policy& policy, const Evaluation& made, const Question& question) {
  // A program or a reader within a sandbox gets what the sandbox has, from the sandbox's permit.
  const model::Walls none;
  const bool within = !question.inside.empty();
  const uint32_t cpu_millis = within ? 0 : question.agent_cpu_millis;
  const auto& network = made.network;
  std::string plan_sha256 = network ? base::sha256Hex(model::encodePlan(*network)) : "";
  model::PermitFields fields{
      .id = question.permit_id,
      .execution_id = question.execution_id,
      .session_id = question.session_id,
      .tenant = question.principal.tenant,
      .policy_id = policy.id,
      .runtime = std::string(made.runtime),
      .image = toText(imageOf(made)),
      .network_tier = network ? network->tier : std::string(kNoNetwork),
      .network_plan_sha256 = std::move(plan_sha256),
      .network_ports = network ? model::namedPorts(*network) : std::vector<uint16_t>(),
      .limits = made.limits,
      .walls = within || question.walls == nullptr ? none : *question.walls,
      // People and services without an agent's name have nothing together.
      .agent = cpu_millis > 0 ? question.principal.agent : "",
      .agent_cpu_millis = question.principal.agent.empty() ? 0 : cpu_millis,
      .spec_sha256 = question.spec_sha256,
      // Interpreters started ahead of their code belong to the host's image.
      .prestart = made.image == nullptr ? question.prestart : "",
      .nested = question.request.nested,
      .fresh = question.request.fresh,
      .layers = within ? std::vector<model::PermitLayer>() : question.layers,
      .not_before = question.now,
      .expires = question.now + question.valid_for,
  };
  return PermitIssuer::issue(std::move(fields), network);
}

// Why the matching rule denies; no approval can change such a denial.
std::optional<Denied> refuse(const Policy& policy, const Question& question, Evaluation& made) {
  const Rule* rule = made.rule;
  if (!policy.broken.empty()) {
    return Denied{.rule = "",
                  .reason = "the policy cannot be used, so nothing runs: " + policy.broken,
                  .remedy = policy.mending.empty()
                                ? "have an administrator apply one that can (cloister policy apply)"
                                : policy.mending,
                  .unavailable = true};
  }
  if (auto denied = beyondUs(question)) return denied;
  if (rule == nullptr || question.language.empty()) {
    return Denied{"", "no rule of policy " + policy.id + " allows this run",
                  "ask the operator for a rule that does"};
  }
  if (rule->effect == Effect::kDeny) {
    return Denied{rule->name, rule->why,
                  rule->remedy.empty() ? "ask the operator to change this rule" : rule->remedy};
  }
  made.tier = tierOf(policy, *rule, question, made.score);
  if (auto denied = chooseRuntime(policy, question, made)) return denied;
  if (auto denied = overDependencies(question, made)) return denied;
  if (auto denied = chooseImage(question, made)) return denied;
  if (auto denied = overOperation(*rule, question)) return denied;
  if (auto denied = overSecrets(*rule, question)) return denied;
  if (auto denied = chooseNetwork(policy, question, made)) return denied;
  fitToRule(*rule, question.request, made.limits);
  return overLimit(*rule, made.limits);
}

}  // namespace

std::string ruleLanguage(const RunRequest& request, const model::LanguageSet& languages) {
  if (!std::holds_alternative<std::monostate>(request.command)) return "command";
  const model::Language* language = languages.find(request.language);
  return language == nullptr ? "" : language->name;
}

bool matches(const Rule& rule, const Question& question, int score) {
  const bool lists = std::ranges::all_of(listConditions(), [&](const ListCondition& condition) {
    return holds(condition, rule.match, question);
  });
  return lists && dependenciesHold(rule.match, question) && sessionHolds(rule.match, question) &&
         scoreHolds(rule.match, score);
}

Evaluation evaluate(const Policy& policy, const Question& question) {
  Evaluation made;
  made.score = scoreOf(policy, question);
  made.rule = firstMatch(policy, question, made.score);
  made.limits = question.request.limits;
  model::settle(made.limits);
  made.denied = refuse(policy, question, made);
  if (made.denied || question.approved) return made;
  const TierSetting& setting = policy.tiers[static_cast<size_t>(made.tier)];
  if (made.rule->effect == Effect::kApprove) {
    made.wanted = &made.rule->approval;
  } else if (setting.approve) {
    made.wanted = &*setting.approve;
  }
  return made;
}

model::ImageRef imageOf(const Evaluation& made) {
  if (made.image == nullptr) return {};
  return {made.image->name, made.image->digest};
}

Decision decide(const Policy& policy, const Question& question) {
  Evaluation made = evaluate(policy, question);
  if (made.denied) return *std::move(made.denied);
  if (made.wanted == nullptr) return grant(policy, made, question);
  return NeedsApproval{.rule = made.rule->name,
                       .reason = reasonOf(made, question),
                       .approver_roles = made.wanted->roles,
                       .quorum = made.wanted->quorum,
                       .ttl_seconds = made.wanted->ttl_seconds,
                       .fallback = made.wanted->fallback};
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

std::string weakerOf(const Policy& policy, const Question& question) {
  const Evaluation made = evaluate(policy, question);
  const bool installs = question.packages != nullptr && made.rule != nullptr &&
                        made.rule->packages && question.request.network.tier != kNoNetwork;
  const std::string packages = installs ? question.packages->weakness() : std::string();
  return made.weaker + (made.weaker.empty() || packages.empty() ? "" : "; ") + packages;
}

std::string decidingRule(const Policy& policy, const Question& question) {
  const Rule* rule = firstMatch(policy, question, scoreOf(policy, question));
  return rule == nullptr ? "" : rule->name;
}

Limits mostAllowed(const Policy& policy, const Question& question) {
  const Rule* rule = firstMatch(policy, question, scoreOf(policy, question));
  return rule == nullptr ? question.request.limits : rule->max;
}

std::optional<std::chrono::milliseconds> mostTime(const Policy& policy, const Question& question) {
  const Rule* rule = firstMatch(policy, question, scoreOf(policy, question));
  if (rule == nullptr || !rule->bounds_time) return std::nullopt;
  return rule->max.wall;
}

}  // namespace cloister::policy
