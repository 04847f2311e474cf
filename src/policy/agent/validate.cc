// SPDX-License-Identifier: Apache-2.0
#include "policy/agent/validate.h"

#include <algorithm>
#include <iterator>

#include "base/glob.h"
#include "policy/agent/categories.h"
#include "policy/agent/file_grant.h"

namespace cloister::policy {

using base::globMatches;

namespace {

using Kind = Validation::Kind;

constexpr uint64_t kMiB = uint64_t{1} << 20;

Validation denied(std::string reason, bool escalation = true) {
  Validation v;
  v.kind = Kind::kDenied;
  v.reason = std::move(reason);
  v.escalation_available = escalation;
  return v;
}

bool has(const std::vector<std::string>& list, std::string_view value) {
  return std::ranges::find(list, value) != list.end();
}

bool anyGlob(const std::vector<std::string>& globs, std::string_view text) {
  return std::ranges::any_of(globs,
                             [&](const std::string& glob) { return globMatches(glob, text); });
}

// --- files

std::string_view verbOf(FileAccess access) {
  constexpr std::string_view kVerbs[] = {"read", "write", "create", "delete"};
  return kVerbs[static_cast<size_t>(access)];
}

// Whether the rule forbids the path, its directory as a whole, or anything beneath.
bool forbids(const PathRule& rule, const FileOperation& file, const std::string& path) {
  if (file.access == FileAccess::kRead && !rule.reads) return false;
  if (globMatches(rule.path, path) || globMatches(rule.path, path + "/")) return true;
  // Deleting a directory, or a recursive operation, affects everything beneath.
  if (!file.recursive && file.access != FileAccess::kDelete) return false;
  const std::string fixed = rule.path.substr(0, rule.path.find('*'));
  const std::string beneath = path == "/" ? path : path + "/";
  return fixed.empty() || fixed == "/" || fixed.starts_with(beneath) || beneath.starts_with(fixed);
}

// The operations of levels.yaml that allow the access.
bool allowedByLevel(const Level& level, FileAccess access, const std::string& path) {
  const std::vector<std::string>& operations = level.file_operations;
  if (has(operations, verbOf(access))) return true;
  if (access == FileAccess::kRead) return false;
  if (has(operations, "write_temp") && isTemporaryPath(path)) return true;
  if (access == FileAccess::kDelete) {
    return has(operations, "delete_non_system") && !isSystemPath(path);
  }
  return has(operations, "write_non_config") && !isSystemPath(path) && !isConfigPath(path);
}

Validation validateFile(const AgentRules& rules, const FileOperation& file) {
  const std::string path = absolutePath(file.path);
  // A rule without exceptions takes precedence: an approval for another rule does not count.
  const PathRule* by = nullptr;
  for (const PathRule& rule : rules.level.forbidden_paths) {
    if (by != nullptr && (rule.escalation || !by->escalation)) continue;
    if (forbids(rule, file, path)) by = &rule;
  }
  if (by != nullptr) {
    Validation v = denied("path " + path + " is forbidden for agents at level " + rules.level.name,
                          by->escalation);
    v.rule = by->path;
    v.why = by->why;
    v.mitigations = {"use a path that the rule does not name"};
    return v;
  }
  const std::string operation = "file_" + std::string(verbOf(file.access));
  if (rules.granted.contains(operation) || allowedByLevel(rules.level, file.access, path))
    return {};
  Validation v = denied("level " + rules.level.name + " does not permit to " +
                        std::string(verbOf(file.access)) + " " + path);
  v.why = rules.level.why;
  v.mitigations = {"use a place that the level permits, or have " + operation + " granted"};
  return v;
}

// --- commands

std::string wordsOf(std::string_view text, Span span) {
  const size_t begin = std::min<size_t>(span.begin, text.size());
  const size_t length = std::min<size_t>(span.end - std::min(span.begin, span.end), 200);
  return model::shownText(text.substr(begin, length));
}

Validation refusedCommand(const Level& level, const Verdict& verdict, const std::string& text) {
  Validation v;
  bool only_not_allowed = true;
  const Risk* worst = nullptr;
  for (const Risk& risk : verdict.risks) {
    if (risk.outcome == Outcome::kAllow) continue;
    if (risk.outcome == verdict.outcome && worst == nullptr) worst = &risk;
    only_not_allowed = only_not_allowed && risk.kind == "not_allowed";
    if (!has(v.mitigations, risk.mitigation)) v.mitigations.push_back(risk.mitigation);
    v.risk_factors.push_back(risk);
  }
  v.kind = only_not_allowed ? Kind::kDenied : Kind::kUnsafeCommand;
  v.reason = verdict.reason;
  v.rule = verdict.rule;
  v.why = verdict.why;
  v.escalation_available = mayBeApproved(level, verdict);
  if (worst != nullptr) v.words = wordsOf(text, worst->span);
  return v;
}

// Judges by `level`, which may differ from the rules' own level.
Verdict verdictOn(const AgentRules& rules, const Level& level, const CommandOperation& command) {
  const std::string_view directory = command.directory.empty() ? kWorkspace : command.directory;
  Effects effects = command.text
                        ? effectsOf(*command.text, rules.bounds, rules.image.get(), directory)
                        : effectsOfArgv(command.argv, rules.bounds, rules.image.get(), directory);
  if (!rules.granted.contains("file_write")) return judgeCommand(level, std::move(effects));
  Level granted = level;
  granted.file_operations.emplace_back("write");
  return judgeCommand(granted, std::move(effects));
}

Validation validateCommand(const AgentRules& rules, const CommandOperation& command,
                           const std::string& text) {
  const Verdict verdict = verdictOn(rules, rules.level, command);
  if (verdict.outcome != Outcome::kAllow) return refusedCommand(rules.level, verdict, text);
  Validation v;
  v.monitoring_required = !verdict.risks.empty();
  for (const Risk& risk : verdict.risks) {
    if (v.conditions.size() < 16) v.conditions.push_back(risk.kind + ": " + risk.what);
  }
  return v;
}

// --- the rest

Validation validateNetwork(const AgentRules& rules, const NetworkOperation& network) {
  const std::string& access = rules.level.network_access;
  const bool granted = rules.granted.contains("network");
  const auto host = hostOf(network.url);
  if (!host) {
    Validation v = denied("url: it names no host", false);
    v.mitigations = {"give a whole URL, as https://host/path"};
    return v;
  }
  if (!granted && access == "denied") {
    Validation v = denied("level " + rules.level.name + " has no network");
    v.why = rules.level.why;
    v.mitigations = {"send what it needs as files, or have network granted"};
    return v;
  }
  if (!granted && access == "internal_only" && !isInternalHost(*host)) {
    Validation v =
        denied("level " + rules.level.name + " reaches internal hosts only, not " + *host);
    v.why = rules.level.why;
    v.mitigations = {"use an internal mirror, or have network granted"};
    return v;
  }
  Validation v;
  v.monitoring_required = access != "allowed";
  if (v.monitoring_required) v.conditions = {"the connection is recorded"};
  return v;
}

Validation validateNamed(const AgentRules& rules, const std::vector<std::string>& allowed,
                         std::string_view operation, const std::string& name) {
  if (rules.granted.contains(operation) || anyGlob(allowed, name)) return {};
  Validation v = denied("level " + rules.level.name + " does not permit " + std::string(operation) +
                        " " + name);
  v.why = rules.level.why;
  v.mitigations = {"have " + std::string(operation) + " granted"};
  return v;
}

// Whether an operation on a directory is covered by DIRECTORY/*: listing, making, and changing
// everything beneath. Removing the directory is not covered.
bool isAboutDirectory(const Operation& operation) {
  const auto* file = std::get_if<FileOperation>(&operation.what);
  if (file == nullptr || file->access == FileAccess::kDelete) return false;
  return file->access != FileAccess::kWrite || file->recursive;
}

// A command is covered only by the identical text.
bool covers(const model::TemporaryPermission& one, const Operation& operation,
            const std::string& target) {
  if (one.operation == "network") return coversUrl(one.pattern, target);
  if (one.pattern == target) return true;
  if (one.operation == "command_execution") return false;
  if (globMatches(one.pattern, target)) return true;
  return isAboutDirectory(operation) && one.pattern == target + "/*";
}

// The entry of the document's table for the operation; null: none.
const SafeOperation* safeFor(const AgentRules& rules, const Operation& operation,
                             const std::string& target) {
  const auto found = std::ranges::find_if(rules.safe, [&](const SafeOperation& safe) {
    if (const auto* command = std::get_if<CommandOperation>(&operation.what)) {
      return safe.level != nullptr &&
             verdictOn(rules, *safe.level, *command).outcome == Outcome::kAllow;
    }
    const auto* file = std::get_if<FileOperation>(&operation.what);
    const std::string name = file != nullptr && file->access == FileAccess::kCreate
                                 ? "file_write"
                                 : std::string(nameOf(operation));
    return file != nullptr && !file->recursive && name == safe.operation &&
           globMatches(safe.path, target);
  });
  return found == rules.safe.end() ? nullptr : &*found;
}

// The table entry by which no person is needed: no rule forbids the operation by name, and no rule
// requires a person. Null: a person is needed.
const SafeOperation* ruleMayAllow(const AgentRules& rules, const Operation& operation,
                                  const std::string& target, const Validation& refused) {
  const bool asked = rules.auto_approve_safe ||
                     std::ranges::any_of(rules.temporary, &model::TemporaryPermission::by_rule);
  const bool open = asked && refused.escalation_available && refused.rule.empty() &&
                    !rules.revoked.contains(nameOf(operation)) &&
                    !needsHuman(rules.require_human_approval, operation, target);
  return open ? safeFor(rules, operation, target) : nullptr;
}

// "file_read of /tmp/*"
std::string nameOfSafe(const SafeOperation& safe) {
  return safe.level != nullptr ? safe.operation + " at level " + safe.level->name
                               : safe.operation + " of " + safe.path;
}

// The temporary permission for the operation; null for none. A permission by a rule counts only
// while `by_rule`.
const model::TemporaryPermission* temporaryFor(const AgentRules& rules, const Operation& operation,
                                               const std::string& target, int64_t now,
                                               bool by_rule) {
  for (const model::TemporaryPermission& one : rules.temporary) {
    if (one.operation != nameOf(operation) || one.expires_at <= now) continue;
    if (one.by_rule && !by_rule) continue;
    if (covers(one, operation, target)) return &one;
  }
  return nullptr;
}

Validation judge(const AgentRules& rules, const Operation& operation, const std::string& target) {
  if (const auto* file = std::get_if<FileOperation>(&operation.what))
    return validateFile(rules, *file);
  if (const auto* command = std::get_if<CommandOperation>(&operation.what))
    return validateCommand(rules, *command, target);
  if (const auto* network = std::get_if<NetworkOperation>(&operation.what))
    return validateNetwork(rules, *network);
  const bool gate = std::holds_alternative<GateOperation>(operation.what);
  return validateNamed(rules, gate ? rules.level.quality_gates : rules.level.workflows,
                       nameOf(operation), target);
}

}  // namespace

std::string_view kindName(Validation::Kind kind) {
  constexpr std::string_view kNames[] = {"approved", "denied", "resource_exceeded",
                                         "unsafe_command"};
  return kNames[static_cast<size_t>(kind)];
}

Validation validateOperation(const AgentRules& rules, const Operation& operation,
                             const Resources& used, int64_t now) {
  const std::string_view name = nameOf(operation);
  const std::string target = targetOf(operation);
  Validation v;
  if (rules.revoked.contains(name)) {
    // The kernel opens no file for a revoked operation despite approvals, so neither does
    // validation.
    const auto* file = std::get_if<FileOperation>(&operation.what);
    const bool changes = file != nullptr && file->access != FileAccess::kRead;
    v = denied(std::string(name) + " was revoked for agent " + rules.agent, !changes);
    v.mitigations = {"have " + std::string(name) + " granted"};
  } else {
    v = judge(rules, operation, target);
  }
  // An operation without possible exceptions has no permission.
  const SafeOperation* safe = v.approved() ? nullptr : ruleMayAllow(rules, operation, target, v);
  const auto* temporary = v.escalation_available
                              ? temporaryFor(rules, operation, target, now, safe != nullptr)
                              : nullptr;
  if (temporary != nullptr) {
    v = {};
    v.escalation_id = temporary->escalation_id;
    v.monitoring_required = true;
    v.conditions = {"approved for a time by " + temporary->escalation_id};
    if (isForRequestsAlone(rules, name, temporary->pattern))
      v.conditions.emplace_back(kForRequestsAlone);
  }
  if (!v.approved()) {
    const bool by_rule = rules.auto_approve_safe && safe != nullptr;
    v.human_approval = v.escalation_available && !by_rule;
    if (by_rule) v.safe_by = nameOfSafe(*safe);
    return v;
  }
  Validation room = validateResources(rules, operation.wanted, used);
  if (!room.approved()) return room;
  v.monitoring_required = v.monitoring_required || room.monitoring_required;
  std::ranges::copy(room.conditions, std::back_inserter(v.conditions));
  return v;
}

bool ruleApproves(const AgentRules& rules, const Operation& operation) {
  const std::string target = targetOf(operation);
  const Validation v = judge(rules, operation, target);
  return !v.approved() && ruleMayAllow(rules, operation, target, v) != nullptr;
}

Resources sumOf(const std::vector<Operation>& plan) {
  Resources sum;
  const auto add = [](uint64_t& to, uint64_t more) {
    if (__builtin_add_overflow(to, more, &to)) to = UINT64_MAX / 2;
  };
  for (const Operation& each : plan) {
    add(sum.memory_bytes, each.wanted.memory_bytes);
    add(sum.time_ms, each.wanted.time_ms);
    add(sum.disk_bytes, each.wanted.disk_bytes);
    sum.cpu_millis = std::max(sum.cpu_millis, each.wanted.cpu_millis);
    sum.file_bytes = std::max(sum.file_bytes, each.wanted.file_bytes);
  }
  return sum;
}

Validation validateResources(const AgentRules& rules, const Resources& wanted,
                             const Resources& used) {
  struct Row {
    std::string_view limit;
    std::optional<uint64_t> most;
    uint64_t wanted;
    uint64_t used;
  };
  const auto up = [](uint64_t value, uint64_t unit) { return (value + unit - 1) / unit; };
  const Row rows[] = {
      {"memory_mb", rules.limits.memory_mb, up(wanted.memory_bytes, kMiB),
       up(used.memory_bytes, kMiB)},
      // Concurrent runs are slowed down to the limit, not refused.
      {"cpu_percent", rules.limits.cpu_percent, up(wanted.cpu_millis, 10), 0},
      {"time_seconds", rules.limits.time_seconds, up(wanted.time_ms, 1000), 0},
      {"disk_mb", rules.limits.disk_mb, up(wanted.disk_bytes, kMiB), 0},
      {"file_mb", rules.limits.file_mb, up(wanted.file_bytes, kMiB), 0},
      {"concurrent", rules.limits.concurrent, wanted.running, used.running},
  };
  Validation v;
  for (const Row& row : rows) {
    if (!row.most || row.wanted == 0) continue;
    if (row.wanted + row.used > *row.most) {
      v.kind = Kind::kResourceExceeded;
      v.exceeded.push_back({std::string(row.limit), *row.most, row.used, row.wanted});
    } else if ((row.wanted + row.used) * 10 > *row.most * 9) {
      v.monitoring_required = true;
      v.conditions.push_back(std::string(row.limit) + " is nearly used up");
    }
  }
  if (v.approved()) return v;
  const ExceededLimit& first = v.exceeded.front();
  const uint64_t left = first.limit_value - std::min(first.used, first.limit_value);
  v.monitoring_required = false;
  v.conditions.clear();
  v.rule = first.limit;
  v.reason = "insufficient " + first.limit + ": requires " + std::to_string(first.wanted) +
             ", only " + std::to_string(left) + " of " + std::to_string(first.limit_value) +
             " are available to agent " + rules.agent;
  v.suggestion = first.used > 0 && first.wanted <= first.limit_value
                     ? "wait for what the agent runs to end, ask for at most " +
                           std::to_string(left) + ", or have the limit raised"
                     : "ask for at most " + std::to_string(left) +
                           ", split the work, or have the limit raised";
  v.mitigations = {v.suggestion};
  return v;
}

base::json::object toJsonObject(const Validation& v) {
  namespace json = base::json;
  const auto or_null = [](const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(text);
  };
  json::object out = {{"outcome", kindName(v.kind)}};
  if (v.approved()) {
    out["conditions"] = json::array(v.conditions.begin(), v.conditions.end());
    out["monitoring_required"] = v.monitoring_required;
    if (!v.escalation_id.empty()) out["escalation_id"] = v.escalation_id;
    return out;
  }
  out["reason"] = v.reason;
  out["rule"] = or_null(v.rule);
  out["why"] = or_null(v.why);
  out["words"] = or_null(v.words);
  out["escalation_available"] = v.escalation_available;
  out["human_approval"] = v.human_approval;
  out["mitigations"] = json::array(v.mitigations.begin(), v.mitigations.end());
  if (v.kind == Kind::kResourceExceeded) {
    json::array exceeded;
    for (const ExceededLimit& one : v.exceeded) {
      exceeded.push_back(json::object{{"limit", one.limit},
                                      {"value", one.limit_value},
                                      {"used", one.used},
                                      {"wanted", one.wanted}});
    }
    out["exceeded_limits"] = std::move(exceeded);
    out["suggestion"] = v.suggestion;
  }
  if (v.kind == Kind::kUnsafeCommand) {
    json::array risks;
    for (const Risk& risk : v.risk_factors) {
      risks.push_back(json::object{{"kind", risk.kind},
                                   {"what", model::shownText(risk.what)},
                                   {"outcome", outcomeName(risk.outcome)},
                                   {"rule", or_null(risk.rule)},
                                   {"mitigation", risk.mitigation}});
    }
    out["risk_factors"] = std::move(risks);
  }
  return out;
}

}  // namespace cloister::policy
