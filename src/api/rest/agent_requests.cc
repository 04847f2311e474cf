// SPDX-License-Identifier: Apache-2.0
#include "api/rest/agent_requests.h"

#include <algorithm>

#include "base/clock.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using base::ObjectReader;
using model::AgentSandbox;
using Texts = std::vector<std::string>;

constexpr size_t kMaxPattern = 1024;

std::unexpected<Error> wrong(const std::string& field, const std::string& why) {
  return fail(Code::kInvalid, field + ": " + why, field);
}

Result<std::optional<Texts>> texts(ObjectReader& reader, std::string_view name) {
  const json::array* items = TRY(reader.array(name));
  if (items == nullptr) return std::nullopt;
  const std::string field = reader.pathOf(name);
  Texts out;
  for (const json::value& item : *items) {
    const bool fits = item.is_string() && !item.get_string().empty() &&
                      item.get_string().size() <= kMaxPattern &&
                      !std::string_view(item.get_string()).contains('\0');
    if (!fits) return wrong(field, "must be a list of texts of 1 to 1024 bytes");
    out.emplace_back(item.get_string());
  }
  if (out.size() > model::kMaxAgentRules) {
    return wrong(field, "must have at most " + std::to_string(model::kMaxAgentRules) + " items");
  }
  return out;
}

bool drop(Texts& list, const std::string& text) {
  return std::erase(list, text) > 0;
}

Result<> add(Texts& list, const Texts& more, const std::string& field) {
  for (const std::string& text : more) {
    if (std::ranges::find(list, text) == list.end()) list.push_back(text);
  }
  if (list.size() <= model::kMaxAgentRules) return {};
  return wrong(field, "an agent has at most " + std::to_string(model::kMaxAgentRules) +
                          " of its own; remove some");
}

Result<Texts> operations(ObjectReader& reader, std::string_view name) {
  Texts all = TRY(texts(reader, name)).value_or(Texts{});
  for (const std::string& one : all) {
    if (model::isAgentOperation(one)) continue;
    std::string known;
    for (const std::string_view each : model::kAgentOperations)
      known.append(known.empty() ? "" : ", ").append(each);
    return wrong(reader.pathOf(name),
                 "there is no operation \"" + model::shownText(one) + "\"; use one of " + known);
  }
  return all;
}

// A granted operation is no longer revoked, and the reverse.
Result<> readOperations(ObjectReader& reader, std::string_view grant, std::string_view revoke,
                        AgentSandbox& sandbox) {
  const Texts granted = TRY(operations(reader, grant));
  const Texts revoked = TRY(operations(reader, revoke));
  for (const std::string& one : granted) {
    if (std::ranges::find(revoked, one) != revoked.end())
      return wrong(reader.pathOf(grant), one + " is in " + std::string(revoke) + " too");
    drop(sandbox.revoked_operations, one);
  }
  for (const std::string& one : revoked)
    drop(sandbox.granted_operations, one);
  TRY(add(sandbox.granted_operations, granted, reader.pathOf(grant)));
  return add(sandbox.revoked_operations, revoked, reader.pathOf(revoke));
}

Result<> readLimits(ObjectReader& body, model::AgentLimits& limits) {
  const json::object* object = TRY(body.object("limits"));
  if (object == nullptr) return {};
  ObjectReader reader(*object, "limits");
  for (const model::AgentLimitKind& kind : model::kAgentLimits) {
    if (const auto n = TRY(reader.integer(kind.name, 1, kind.most)))
      limits.*kind.member = static_cast<uint64_t>(*n);
  }
  return reader.finish();
}

Result<> readEscalation(ObjectReader& body, model::AgentEscalation& escalation) {
  constexpr int64_t kMostSeconds = int64_t{30} * 24 * 3600;
  const json::object* object = TRY(body.object("escalation"));
  if (object == nullptr) return {};
  ObjectReader reader(*object, "escalation");
  if (const auto flag = TRY(reader.boolean("auto_approve_safe")))
    escalation.auto_approve_safe = flag;
  if (auto list = TRY(texts(reader, "require_human_approval"))) {
    for (const std::string& kind : *list) {
      if (model::isApprovalKind(kind)) continue;
      return wrong("escalation.require_human_approval",
                   "\"" + model::shownText(kind) + "\" is none of " + model::approvalKindNames());
    }
    escalation.require_human_approval = std::move(list);
  }
  if (const auto n = TRY(reader.integer("timeout_seconds", 1, kMostSeconds)))
    escalation.timeout_seconds = static_cast<uint64_t>(*n);
  if (auto action = TRY(reader.text("fallback_action"))) {
    if (*action != "deny" && *action != "allow_read_only") {
      return wrong("escalation.fallback_action", "must be deny or allow_read_only");
    }
    escalation.fallback_action = std::move(action);
  }
  if (auto list = TRY(texts(reader, "notification_channels")))
    escalation.notification_channels = std::move(list);
  return reader.finish();
}

struct List {
  std::string_view name;
  Texts AgentSandbox::* member;
  Texts AgentSandbox::* opposite;  // loses the added texts; null for none
};
constexpr List kLists[] = {
    {"allowed_commands", &AgentSandbox::allowed_commands, &AgentSandbox::forbidden_commands},
    {"forbidden_commands", &AgentSandbox::forbidden_commands, &AgentSandbox::allowed_commands},
    {"dangerous_patterns", &AgentSandbox::dangerous_patterns, nullptr},
    {"forbidden_paths", &AgentSandbox::forbidden_paths, nullptr}};

// A restriction replaces the agent's former restriction of the same command.
Result<> addRestrictions(ObjectReader& body, AgentSandbox& sandbox) {
  const json::array* items = TRY(body.array("parameter_restrictions"));
  if (items == nullptr) return {};
  const std::string field = body.pathOf("parameter_restrictions");
  auto& all = sandbox.parameter_restrictions;
  for (const json::value& item : *items) {
    if (!item.is_object()) return wrong(field, "must be a list of objects");
    ObjectReader reader(item.get_object(), field);
    model::ParameterRestriction one;
    one.command = TRY(reader.text("command")).value_or("");
    if (one.command.empty() || one.command.size() > kMaxPattern ||
        one.command.find_first_of(std::string_view("/* \0", 4)) != std::string::npos) {
      return wrong(field + ".command", "must be the name of a program, as git");
    }
    bool some = false;
    for (const auto& [name, member] : model::kParameterLists) {
      one.*member = TRY(texts(reader, name)).value_or(Texts{});
      some = some || !(one.*member).empty();
    }
    TRY(reader.finish());
    if (!some) return wrong(field, "give allowed_flags, forbidden_flags or allowed_paths");
    std::erase_if(all, [&](const auto& each) { return each.command == one.command; });
    all.push_back(std::move(one));
  }
  if (all.size() <= model::kMaxAgentRules) return {};
  return wrong(field, "an agent has at most " + std::to_string(model::kMaxAgentRules) +
                          " of its own; remove some");
}

Result<> removeRestrictions(ObjectReader& reader, AgentSandbox& sandbox) {
  constexpr std::string_view kName = "parameter_restrictions";
  for (const std::string& command : TRY(texts(reader, kName)).value_or(Texts{})) {
    const size_t gone = std::erase_if(sandbox.parameter_restrictions,
                                      [&](const auto& each) { return each.command == command; });
    if (gone > 0) continue;
    return wrong(reader.pathOf(kName),
                 "the agent has none of \"" + model::shownText(command) + "\" of its own");
  }
  return {};
}

Result<> readAdded(ObjectReader& reader, AgentSandbox& sandbox) {
  for (const List& list : kLists) {
    const auto more = TRY(texts(reader, list.name));
    if (!more) continue;
    for (const std::string& text : *more) {
      if (list.opposite != nullptr) drop(sandbox.*list.opposite, text);
    }
    TRY(add(sandbox.*list.member, *more, reader.pathOf(list.name)));
  }
  return addRestrictions(reader, sandbox);
}

Result<> readRemoved(ObjectReader& reader, AgentSandbox& sandbox) {
  for (const List& list : kLists) {
    for (const std::string& text : TRY(texts(reader, list.name)).value_or(Texts{})) {
      if (drop(sandbox.*list.member, text)) continue;
      return wrong(reader.pathOf(list.name),
                   "the agent has no \"" + model::shownText(text) + "\" of its own");
    }
  }
  TRY(removeRestrictions(reader, sandbox));
  return reader.finish();
}

json::value timeOrNull(int64_t at) {
  return at == 0 ? json::value(nullptr) : json::value(base::formatTime(at));
}

template <class T>
json::value orNull(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

json::array restrictionsOf(const std::vector<policy::ParameterRule>& rules) {
  json::array out;
  for (const policy::ParameterRule& rule : rules) {
    json::object one =
        model::toJsonObject(model::ParameterRestriction{.command = rule.command,
                                                        .allowed_flags = rule.allowed_flags,
                                                        .forbidden_flags = rule.forbidden_flags,
                                                        .allowed_paths = rule.allowed_paths});
    one["why"] = rule.why;
    out.push_back(std::move(one));
  }
  return out;
}

json::object effectiveObject(const policy::AgentRules& rules) {
  json::array paths;
  for (const policy::PathRule& rule : rules.level.forbidden_paths) {
    paths.push_back(json::object{
        {"path", rule.path}, {"access", rule.reads ? "all" : "write"}, {"why", rule.why}});
  }
  json::array commands;
  for (const policy::CommandRule& rule : rules.level.allowed)
    commands.push_back(json::string(rule.pattern.text()));
  json::array forbidden;
  for (const policy::CommandRule& rule : rules.level.forbidden)
    forbidden.push_back(json::string(rule.pattern.text()));
  json::array dangerous;
  for (const policy::CommandRule& rule : rules.level.dangerous)
    dangerous.push_back(json::string(rule.pattern.text()));
  const auto& operations = rules.level.file_operations;
  const std::vector<std::string> warnings = policy::warningsOf(rules);
  return {{"description", rules.level.description},
          {"allowed_commands", std::move(commands)},
          {"forbidden_commands", std::move(forbidden)},
          {"dangerous_patterns", std::move(dangerous)},
          {"parameter_restrictions", restrictionsOf(rules.level.parameters)},
          {"forbidden_paths", std::move(paths)},
          {"file_operations", json::array(operations.begin(), operations.end())},
          {"network_access", rules.level.network_access},
          {"limits",
           {{"memory_mb", orNull(rules.limits.memory_mb)},
            {"cpu_percent", orNull(rules.limits.cpu_percent)},
            {"time_seconds", orNull(rules.limits.time_seconds)},
            {"disk_mb", orNull(rules.limits.disk_mb)},
            {"file_mb", orNull(rules.limits.file_mb)},
            {"concurrent", orNull(rules.limits.concurrent)},
            {"requests_per_minute", orNull(rules.limits.requests_per_minute)}}},
          {"auto_approve_safe", rules.auto_approve_safe},
          {"auto_approve_by", rules.auto_approve_by},
          {"require_human_approval",
           json::array(rules.require_human_approval.begin(), rules.require_human_approval.end())},
          {"fallback_action", rules.fallback_action},
          {"warnings", json::array(warnings.begin(), warnings.end())}};
}

}  // namespace

Result<> readAgentSandbox(const json::object& body, AgentSandbox& sandbox) {
  ObjectReader reader(body, "");
  sandbox.level = TRY(reader.text("level")).value_or("");
  if (sandbox.level.empty()) return wrong("level", "is required");
  TRY(readAdded(reader, sandbox));
  sandbox.whitelist_mode = TRY(reader.boolean("whitelist_mode")).value_or(false);
  TRY(readOperations(reader, "granted_operations", "revoked_operations", sandbox));
  TRY(readLimits(reader, sandbox.limits));
  sandbox.nested = TRY(reader.boolean("nested")).value_or(false);
  TRY(readEscalation(reader, sandbox.escalation));
  return reader.finish();
}

Result<> readAgentUpdate(const json::object& body, AgentSandbox& sandbox) {
  ObjectReader reader(body, "");
  const int64_t now = base::wallMicros();
  std::erase_if(sandbox.temporary_permissions,
                [&](const model::TemporaryPermission& one) { return one.expires_at <= now; });
  if (const auto level = TRY(reader.text("level"))) {
    if (*level != sandbox.level) sandbox.level_since = now;
    sandbox.level = *level;
  }
  if (const json::object* added = TRY(reader.object("add"))) {
    ObjectReader inner(*added, "add");
    TRY(readAdded(inner, sandbox));
    TRY(inner.finish());
  }
  if (const json::object* removed = TRY(reader.object("remove"))) {
    ObjectReader inner(*removed, "remove");
    TRY(readRemoved(inner, sandbox));
  }
  TRY(readOperations(reader, "grant", "revoke", sandbox));
  TRY(readLimits(reader, sandbox.limits));
  sandbox.nested = TRY(reader.boolean("nested")).value_or(sandbox.nested);
  sandbox.whitelist_mode = TRY(reader.boolean("whitelist_mode")).value_or(sandbox.whitelist_mode);
  TRY(readEscalation(reader, sandbox.escalation));
  if (body.empty()) return fail(Code::kInvalid, "request body: says nothing to change", "level");
  return reader.finish();
}

json::object agentObject(const AgentSandbox& sandbox, const Result<policy::AgentRules>& rules) {
  json::object out = model::toRecord(sandbox);
  out["created_at"] = timeOrNull(sandbox.created_at);
  out["last_modified"] = timeOrNull(sandbox.last_modified);
  out.erase("level_since");
  out["nested"] = sandbox.nested;
  out["whitelist_mode"] = sandbox.whitelist_mode;
  const auto& dangerous = sandbox.dangerous_patterns;
  out["dangerous_patterns"] = json::array(dangerous.begin(), dangerous.end());
  json::array restrictions;
  for (const model::ParameterRestriction& one : sandbox.parameter_restrictions)
    restrictions.push_back(model::toJsonObject(one));
  out["parameter_restrictions"] = std::move(restrictions);
  json::array temporary;
  const int64_t now = base::wallMicros();
  for (const model::TemporaryPermission& one : sandbox.temporary_permissions) {
    if (one.expires_at <= now) continue;
    temporary.push_back(json::object{{"operation", one.operation},
                                     {"pattern", one.pattern},
                                     {"expires_at", timeOrNull(one.expires_at)},
                                     {"escalation_id", one.escalation_id}});
  }
  out["temporary_permissions"] = std::move(temporary);
  out["effective"] = rules ? json::value(effectiveObject(*rules)) : json::value(nullptr);
  return out;
}

json::object violationObject(const model::Violation& v) {
  const auto text = [](const std::string& value) {
    return value.empty() ? json::value(nullptr) : json::value(value);
  };
  return {{"id", v.id},         {"at", timeOrNull(v.at)}, {"agent", v.agent},
          {"tenant", v.tenant}, {"level", v.level},       {"operation", v.operation},
          {"what", v.what},     {"outcome", v.outcome},   {"rule", text(v.rule)},
          {"reason", v.reason}, {"words", text(v.words)}, {"subject", text(v.subject)}};
}

}  // namespace cloister::api
