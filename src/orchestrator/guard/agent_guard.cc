// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/guard/agent_guard.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "model/capability.h"
#include "model/tool.h"
#include "orchestrator/guard/questions.h"
#include "policy/agent/file_grant.h"
#include "policy/agent/revoked.h"
#include "wire/files.h"

namespace cloister::orchestrator {
namespace {

using policy::AgentRules;
using policy::CommandOperation;
using policy::FileAccess;
using policy::FileOperation;
using policy::Operation;
using policy::Resources;
using policy::Validation;

constexpr uint64_t kMiB = uint64_t{1} << 20;

model::Principal agentOf(const model::AgentSandbox& sandbox) {
  return {.tenant = sandbox.tenant,
          .app = {},
          .agent = sandbox.agent,
          .user = {},
          .roles = model::Role::kAgent,
          .key_id = {}};
}

// The text as a single word of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text)
    out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// Judges variables like a command that sets them: variables change the effect of a command. No
// approval lifts such a refusal.
void askEnvironment(const AgentRules& rules, const std::map<std::string, std::string>& env,
                    Questions& questions) {
  for (const auto& [name, value] : env) {
    const std::string text = name + "=" + quoted(value);
    const policy::Verdict verdict =
        policy::judgeCommand(rules.level, policy::effectsOf(text, rules.bounds, rules.image.get()));
    const auto risk = std::ranges::find_if(verdict.risks, [](const policy::Risk& each) {
      // A text may name a program without running the program.
      return each.outcome != policy::Outcome::kAllow && each.kind != "names_forbidden_program";
    });
    if (risk == verdict.risks.end()) continue;
    Validation v;
    v.kind = Validation::Kind::kUnsafeCommand;
    v.reason = "env: " + risk->what;
    v.words = name;
    v.escalation_available = false;
    v.risk_factors = {*risk};
    v.mitigations = {risk->mitigation};
    questions.refuse(v, "command_execution", name);
  }
}

// Refuses a tool whose needs, according to the registry, were revoked for the agent. The tool's
// command is judged separately.
void askToolNeeds(const AgentRules& rules, const model::RunRequest& run, Questions& questions) {
  const auto tool = run.metadata.find(std::string(model::kToolMember));
  if (tool == run.metadata.end()) return;
  for (const std::string& need : model::capabilitiesNeeded(run)) {
    if (need == model::capability::kCommand || !rules.revoked.contains(need)) continue;
    Validation v;
    v.kind = Validation::Kind::kDenied;
    v.reason =
        "tool " + tool->second + " needs " + need + ", which was revoked for agent " + rules.agent;
    v.mitigations = {"call a tool that does not need it, or have " + need + " granted"};
    questions.refuse(v, need, tool->second);
  }
}

// Code of a language is a file of the project, run by a program; bash code is read as a command.
std::optional<CommandOperation> commandOf(const model::RunRequest& run,
                                          const model::LanguageSet& languages) {
  if (const auto* text = std::get_if<std::string>(&run.command))
    return CommandOperation{.text = *text, .argv = {}};
  if (const auto* argv = std::get_if<std::vector<std::string>>(&run.command)) {
    CommandOperation command{.text = {}, .argv = *argv};
    command.argv.insert(command.argv.end(), run.args.begin(), run.args.end());
    return command;
  }
  const model::Language* language = languages.find(run.language);
  if (language == nullptr) return std::nullopt;  // an unknown language is refused elsewhere
  if (language->name == "bash") return CommandOperation{.text = run.code, .argv = {}};
  const auto& by = language->compile.empty() ? language->run : language->compile;
  return CommandOperation{.text = {}, .argv = {by.at(0), language->source}};
}

// Lowers limits to the agent's share. Memory and time are lowered only if the request does not name
// them; larger named limits are refused.
void clamp(const AgentRules& rules, model::Limits& limits, const model::LimitSet& named) {
  const auto open = [&](std::string_view name) { return !named.test(model::limitIndex(name)); };
  if (rules.limits.time_seconds && open(model::limit_name::kWall)) {
    const std::chrono::seconds time(std::max<uint64_t>(1, *rules.limits.time_seconds));
    limits.wall = std::min<std::chrono::milliseconds>(limits.wall, time);
  }
  if (rules.limits.cpu_percent) {
    limits.cpu_millis = std::min(limits.cpu_millis, std::max(1U, *rules.limits.cpu_percent) * 10);
  }
  const auto most = [](uint64_t& bytes, const std::optional<uint64_t>& mib) {
    if (mib) bytes = std::min(bytes, std::max<uint64_t>(1, *mib) * kMiB);
  };
  if (open(model::limit_name::kMemory)) most(limits.memory_bytes, rules.limits.memory_mb);
  most(limits.disk_bytes, rules.limits.disk_mb);
  most(limits.file_bytes, rules.limits.file_mb);
}

Result<Held> heldOf(const AgentRules& rules) {
  return std::make_shared<const policy::HeldRules>(TRY(policy::wallsOf(rules, base::wallMicros())));
}

Operation file(FileAccess access, const std::string& path, bool recursive = false) {
  const std::string whole = path.starts_with('/') ? path : "/workspace/" + path;
  return {.what = FileOperation{access, whole, recursive}, .wanted = {}};
}

// The operations of a request of wire/files.h. An unknown request counts as all of them.
std::vector<Operation> operationsOf(const std::vector<std::string>& argv) {
  using enum FileAccess;
  const std::string& verb = argv.at(0);
  const std::string path = argv.size() > 1 ? argv[1] : "";
  if (verb == "stat") return {file(kRead, path)};
  if (verb == "list" || verb == "read") return {file(kRead, path)};
  if (verb == "pack" || verb == "watch") return {file(kRead, path, true)};
  if (verb == wire::files::kSave) {
    return {file(kRead, "", true), file(kRead, std::string(model::kHome), true)};
  }
  if (verb == "write" || verb == "append") return {file(kWrite, path), file(kCreate, path)};
  if (verb == "mkdir") return {file(kCreate, path)};
  if (verb == "remove") return {file(kDelete, path, true)};
  if (verb == "unpack") return {file(kWrite, path, true), file(kCreate, path, true)};
  if (verb == "move") {
    const std::string to = argv.size() > 2 ? argv[2] : "";
    return {file(kRead, path, true), file(kDelete, path, true), file(kCreate, to, true),
            file(kWrite, to, true)};
  }
  return {file(kRead, path, true), file(kWrite, path, true), file(kCreate, path, true),
          file(kDelete, path, true)};
}

// The table of safe operations approves at the time of the request; `fallback_action` decides at
// the expiry.
enum class Approver : uint8_t { kPerson, kSafeTable, kFallback };
Approver approverOf(const model::Escalation& e) {
  for (const model::EscalationDecision& decision : e.decisions) {
    if (!decision.approve || !decision.automatic) continue;
    return decision.at >= e.expires_at ? Approver::kFallback : Approver::kSafeTable;
  }
  return Approver::kPerson;
}

// A permission to write a file includes its creation, as in requests to a session's files.
void addGrants(const model::Escalation& e, std::vector<model::TemporaryPermission>& grants) {
  namespace asked = model::operation;
  const Approver approver = approverOf(e);
  const auto add = [&](std::string_view operation, const std::string& pattern) {
    grants.push_back({std::string(operation), pattern, e.grant_expires_at, e.id,
                      approver == Approver::kSafeTable});
  };
  if (e.operation == asked::kCommand) return add("command_execution", e.subject);
  if (e.operation == asked::kNetwork) return add("network", e.subject);
  // An escalation older than the check of patterns may open nothing.
  const auto pattern = policy::grantPattern(e.subject);
  if (!pattern) return;
  if (approver == Approver::kFallback || e.operation == asked::kFileRead)
    return add("file_read", *pattern);
  if (!policy::canChange(*pattern)) return;
  if (e.operation == asked::kFileDelete) add("file_delete", *pattern);
  if (e.operation == asked::kFileWrite) {
    add("file_write", *pattern);
    add("file_create", *pattern);
  }
}

// The rules, with the permissions approved for a single run.
std::shared_ptr<const AgentRules> lifted(const AgentRules& rules, const model::Escalation& e) {
  auto more = std::make_shared<AgentRules>(rules);
  for (const model::WantedOperation& each : e.lifts) {
    more->temporary.push_back({each.operation, each.target, e.grant_expires_at, e.id,
                               approverOf(e) == Approver::kSafeTable});
  }
  return more;
}

constexpr std::string_view kNoApproval =
    "do without it: in another agent's session the rules of both hold, and no approval lifts any";
constexpr std::string_view kOwnSession =
    "make a session of your own (POST /v1/sessions), and run it there";

// Approvals are only for sandboxes of the requesting agent.
void closeToApproval(AgentRefusal& refused) {
  refused.wants.clear();
  refused.denied.remedy = kNoApproval;
  refused.details["mitigation"] = kNoApproval;
  refused.details["mitigations"] = base::json::array{base::json::string(kNoApproval)};
  refused.details["escalation_available"] = false;
  refused.details["human_approval"] = false;
}

}  // namespace

std::string safeReason(const std::vector<std::string>& safe_by) {
  std::string all;
  for (const std::string& each : safe_by)
    (all += all.empty() ? "" : ", ") += each;
  return "safe_operations of the levels has " + all;
}

AgentGuard::AgentGuard(store::Store& store, const policy::Levels& levels,
                       const model::LanguageSet& languages, std::string default_level)
    : store_(store),
      levels_(levels),
      languages_(languages),
      default_level_(std::move(default_level)) {
  constexpr int64_t kMinute = int64_t{60} * 1'000'000;
  for (const policy::LoweringRule& rule : levels.lowering) {
    lowering_.push_back({.from = rule.from,
                         .to = rule.to,
                         .after = rule.after,
                         .within_us = rule.within_minutes * kMinute,
                         .why = rule.why});
  }
}

Result<std::optional<AgentRules>> AgentGuard::ownRules(const model::Principal& principal) const {
  if (!principal.agent.empty()) {
    const auto sandbox = store_.agents().sandbox(
        store::Scope::of(principal), {.tenant = principal.tenant, .agent = principal.agent});
    if (sandbox) {
      auto rules = rulesFrom(principal, *sandbox);
      if (rules) return *std::move(rules);
      return fail(Code::kDenied,
                  "reading the sandbox of agent " + principal.agent + ": " + rules.error().message);
    }
    if (sandbox.error().code != Code::kNotFound) return std::unexpected(sandbox.error());
  }
  if (default_level_.empty() || principal.isAdmin()) return std::nullopt;
  auto rules = TRY(policy::makeLevelRules(levels_, default_level_, principal.agent));
  TRY(addPolicy(principal, rules));
  return rules;
}

Result<AgentRules> AgentGuard::rulesFrom(const model::Principal& principal,
                                         const model::AgentSandbox& sandbox) const {
  auto rules = TRY(policy::makeAgentRules(levels_, sandbox));
  if (!sandbox.escalation.auto_approve_safe) TRY(addPolicy(principal, rules));
  return rules;
}

// The agent's setting by `escalation policy` overrides its level.
Result<> AgentGuard::addPolicy(const model::Principal& principal, AgentRules& rules) const {
  if (principal.agent.empty()) return {};
  const auto policy = TRY(store_.escalations().policy(principal.tenant, principal.agent));
  if (policy.set_at == 0) return {};
  rules.auto_approve_safe = policy.auto_approve_safe;
  rules.auto_approve_by = policy::approved_by::kPolicy;
  return {};
}

Result<std::optional<std::string>> AgentGuard::needsNobody(const model::Principal& principal,
                                                           const std::string& operation,
                                                           const std::string& subject) const {
  namespace asked = model::operation;
  auto rules = TRY(ownRules(principal));
  if (!rules) return std::nullopt;
  if (!rules->auto_approve_safe) return std::string();
  // A rule does not lengthen an approval: permissions for a time count for nothing here.
  rules->temporary.clear();
  Operation what;
  if (operation == asked::kCommand) {
    what.what = CommandOperation{.text = subject, .argv = {}};
  } else if (operation == asked::kFileRead || operation == asked::kFileWrite ||
             operation == asked::kFileDelete) {
    const FileAccess access = operation == asked::kFileRead    ? FileAccess::kRead
                              : operation == asked::kFileWrite ? FileAccess::kWrite
                                                               : FileAccess::kDelete;
    what.what = FileOperation{access, subject, false};
  } else {
    return std::string();
  }
  const Validation v = policy::validateOperation(*rules, what, {}, base::wallMicros());
  if (!v.approved()) return v.safe_by.empty() ? "" : safeReason({v.safe_by});
  return "the agent's sandbox, at level " + rules->level.name + ", allows it";
}

Result<std::shared_ptr<const AgentRules>> AgentGuard::rulesOf(
    const model::Principal& principal) const {
  auto rules = TRY(ownRules(principal));
  if (!rules) return std::shared_ptr<const AgentRules>();
  return withGrants(principal, *std::move(rules));
}

Result<std::shared_ptr<const AgentRules>> AgentGuard::withGrants(const model::Principal& principal,
                                                                 AgentRules rules) const {
  if (!principal.agent.empty()) {
    const auto grants = TRY(grantsOf({.tenant = principal.tenant, .agent = principal.agent}));
    rules.temporary.insert(rules.temporary.end(), grants.begin(), grants.end());
  }
  return std::make_shared<const AgentRules>(std::move(rules));
}

Result<AgentRules> AgentGuard::standingRulesWith(const model::AgentSandbox& sandbox) const {
  return rulesFrom(agentOf(sandbox), sandbox);
}

Result<std::shared_ptr<const AgentRules>> AgentGuard::rulesWith(
    const model::AgentSandbox& sandbox) const {
  return withGrants(agentOf(sandbox), TRY(standingRulesWith(sandbox)));
}

Result<AgentJudgement> AgentGuard::judgeBy(const std::shared_ptr<const AgentRules>& rules,
                                           const model::Principal& principal,
                                           model::ExecRequest& request, bool in_session) const {
  if (!rules) return judgeWithoutRules(principal, request.run.network, in_session);
  model::RunRequest& run = request.run;
  clamp(*rules, run.limits, run.named_limits);
  AgentJudgement judged{
      .refusal = refusalBy(*rules, principal, request, run.limits, in_session, {}),
      .held = {},
      .time_seconds = rules->limits.time_seconds};
  if (!in_session) judged.held = TRY(heldOf(*rules));
  return judged;
}

Result<std::shared_ptr<const AgentRules>> AgentGuard::standingRulesOf(
    const model::Principal& principal) const {
  auto rules = TRY(ownRules(principal));
  if (!rules) return std::shared_ptr<const AgentRules>();
  rules->temporary.clear();
  return std::make_shared<const AgentRules>(*std::move(rules));
}

Result<std::vector<model::TemporaryPermission>> AgentGuard::grantsOf(
    const store::AgentName& agent) const {
  constexpr uint32_t kMost = 100;
  store::EscalationQuery query;
  query.status = model::EscalationStatus::kApproved;
  query.agent = agent.agent;
  query.limit = kMost;
  const auto approved = TRY(store_.escalations().list(store::Scope::ofTenant(agent.tenant), query));
  const int64_t now = base::wallMicros();
  std::vector<model::TemporaryPermission> grants;
  for (const model::Escalation& e : approved) {
    if (e.grant_expires_at > now) addGrants(e, grants);
  }
  return grants;
}

Result<Held> AgentGuard::heldFor(const model::Principal& principal) const {
  const auto rules = TRY(rulesOf(principal));
  return rules ? heldOf(*rules) : approvedFor(principal);
}

// An agent without rules may have destinations that a person approved.
Result<Held> AgentGuard::approvedFor(const model::Principal& principal) const {
  if (principal.agent.empty()) return Held();
  AgentRules none;
  none.level.network_access = "allowed";
  none.temporary = TRY(grantsOf({.tenant = principal.tenant, .agent = principal.agent}));
  policy::HeldRules held;
  held.network = policy::networkOf(none, base::wallMicros());
  if (held.network.approved.empty()) return Held();
  return std::make_shared<const policy::HeldRules>(std::move(held));
}

Result<Held> AgentGuard::standingFor(const model::Principal& principal) const {
  const auto rules = TRY(standingRulesOf(principal));
  return rules ? heldOf(*rules) : Held();
}

std::optional<AgentRefusal> AgentGuard::refusalBy(const AgentRules& rules,
                                                  const model::Principal& principal,
                                                  const model::ExecRequest& request,
                                                  const model::Limits& limits, bool in_session,
                                                  const Resources& used) const {
  const model::RunRequest& run = request.run;
  Questions questions(rules, principal);
  for (const model::FileSpec& each : run.files)
    questions.ask(file(FileAccess::kCreate, each.path));
  if (auto command = commandOf(run, languages_)) {
    command->directory = request.cwd;
    questions.ask({.what = *std::move(command), .wanted = {}});
  }
  askEnvironment(rules, run.env, questions);
  questions.askNetwork(run.network);
  askToolNeeds(rules, run, questions);
  Resources wanted{.time_ms = static_cast<uint64_t>(limits.wall.count())};
  if (!in_session) {  // its sandbox has been counted
    wanted.memory_bytes = limits.memory_bytes;
    wanted.running = 1;
  }
  questions.askResources(wanted, used);
  return questions.take();
}

// The sandbox's confinement is the session's. The maker's rules hold for every visitor, also for a
// visitor without rules.
Result<AgentJudgement> AgentGuard::judgeVisit(const model::Principal& principal,
                                              model::ExecRequest& request, const Within& session,
                                              const Resources& used) const {
  model::Limits& limits = request.run.limits;
  AgentJudgement judged;
  if (const auto own = TRY(standingRulesOf(principal))) {
    clamp(*own, limits, request.run.named_limits);
    judged.refusal = refusalBy(*own, principal, request, limits, true, used);
    judged.time_seconds = own->limits.time_seconds;
  }
  if (const auto makers = TRY(standingRulesOf(session.maker))) {
    clamp(*makers, limits, request.run.named_limits);
    if (!judged.refusal) judged.refusal = refusalBy(*makers, principal, request, limits, true, {});
    const auto& time = makers->limits.time_seconds;
    if (time) judged.time_seconds = std::min(*time, judged.time_seconds.value_or(*time));
  }
  if (judged.refusal) closeToApproval(*judged.refusal);
  return judged;
}

Result<std::optional<policy::Denied>> AgentGuard::tooOpen(const model::Principal& principal,
                                                          const Within& session) const {
  if (principal.sameAgent(session.maker)) return std::nullopt;
  const Held own = TRY(standingFor(principal));
  // Approved destinations are the maker's alone.
  const bool approved = session.held && !session.held->network.approved.empty();
  if (!own || (!approved && !letsMore(session.held, *own))) return std::nullopt;
  return policy::Denied{.rule = "",
                        .reason = "the session was made by " + nameOfAgent(session.maker.agent) +
                                  ", and its sandbox lets programs do what " +
                                  nameOfAgent(principal.agent) + " may not",
                        .remedy = std::string(kOwnSession)};
}

Result<AgentJudgement> AgentGuard::judgeRun(const model::Principal& principal,
                                            model::ExecRequest& request, const Within* session,
                                            const Resources& used,
                                            const model::Escalation* approval) const {
  if (session != nullptr && !principal.sameAgent(session->maker))
    return judgeVisit(principal, request, *session, used);
  const auto by_rules = TRY(rulesOf(principal));
  if (!by_rules) return judgeWithoutRules(principal, request.run.network, session != nullptr);
  model::RunRequest& run = request.run;
  const auto rules =
      approval == nullptr || approval->lifts.empty() ? by_rules : lifted(*by_rules, *approval);
  clamp(*rules, run.limits, run.named_limits);
  AgentJudgement judged{
      .refusal = refusalBy(*rules, principal, request, run.limits, session != nullptr, used),
      .held = {},
      .time_seconds = rules->limits.time_seconds};
  if (session != nullptr && approval == nullptr) return judged;  // its sandbox has its rules
  judged.held = TRY(heldOf(*rules));
  judged.by_rules = rules == by_rules ? judged.held : TRY(heldOf(*by_rules));
  return judged;
}

// Reads the ledger only for a sandbox with a network of its own.
Result<AgentJudgement> AgentGuard::judgeWithoutRules(const model::Principal& principal,
                                                     const model::NetworkRequest& network,
                                                     bool in_session) const {
  AgentJudgement judged;
  if (network.tier == "none" || in_session) return judged;
  judged.held = TRY(approvedFor(principal));
  judged.by_rules = judged.held;
  return judged;
}

Result<std::optional<AgentRefusal>> AgentGuard::judgeVisitor(
    const model::Principal& visitor, const model::ExecRequest& request) const {
  const auto rules = TRY(standingRulesOf(visitor));
  if (!rules) return std::nullopt;
  model::Limits limits = request.run.limits;
  clamp(*rules, limits, request.run.named_limits);
  auto refusal = refusalBy(*rules, visitor, request, limits, true, {});
  if (refusal) refusal->violation.outcome = model::Violation::kBoundary;
  return refusal;
}

Result<AgentJudgement> AgentGuard::judgeSession(const model::Principal& principal,
                                                model::RunRequest& settings,
                                                const Resources& used) const {
  const auto rules = TRY(rulesOf(principal));
  if (!rules) return judgeWithoutRules(principal, settings.network, false);
  clamp(*rules, settings.limits, settings.named_limits);
  settings.nested = settings.nested || rules->nested;
  Questions questions(*rules, principal);
  askEnvironment(*rules, settings.env, questions);
  questions.askNetwork(settings.network);
  questions.askResources({.memory_bytes = settings.limits.memory_bytes, .running = 1}, used);
  return AgentJudgement{.refusal = questions.take(), .held = TRY(heldOf(*rules))};
}

Result<std::optional<AgentRefusal>> AgentGuard::judgeFiles(
    const model::Principal& principal, const model::Principal& maker,
    const std::vector<std::string>& argv) const {
  const bool same = principal.sameAgent(maker);
  const auto by = [&](const AgentRules& held_to) {
    Questions questions(held_to, principal);
    for (const Operation& operation : operationsOf(argv))
      questions.ask(operation);
    return questions.take();
  };
  std::optional<AgentRefusal> refusal;
  const auto rules = TRY(same ? rulesOf(principal) : standingRulesOf(principal));
  if (rules) refusal = by(*rules);
  if (same) return refusal;
  const auto makers = TRY(standingRulesOf(maker));
  if (!refusal && makers) refusal = by(*makers);
  if (refusal) closeToApproval(*refusal);
  return refusal;
}

bool letsMore(const Held& has, const policy::HeldRules& rules, std::string_view network_tier) {
  const policy::HeldRules none;
  const policy::HeldRules& before = has ? *has : none;
  return (before.runs && !rules.runs) || policy::takesAway(before.walls, rules.walls) ||
         !policy::accessPermits(rules.network.access, network_tier);
}

Error toError(const policy::Denied& denied, const std::string& doing) {
  return {Code::kDenied, doing + ": " + denied.reason + "; " + denied.remedy, {}};
}

Error toError(const AgentRefusal& refusal, const std::string& doing) {
  return toError(refusal.denied, doing);
}

}  // namespace cloister::orchestrator
