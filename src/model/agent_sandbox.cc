// SPDX-License-Identifier: Apache-2.0
#include "model/agent_sandbox.h"

#include <algorithm>

namespace cloister::model {
namespace {

namespace json = base::json;
using base::ObjectReader;
using Texts = std::vector<std::string>;

constexpr int64_t kMost = INT64_MAX;

json::array arrayOf(const Texts& texts) {
  return json::array(texts.begin(), texts.end());
}

Result<Texts> textsOf(ObjectReader& reader, std::string_view name) {
  Texts out;
  const json::array* items = TRY(reader.array(name));
  if (items == nullptr) return out;
  for (const json::value& item : *items) {
    if (!item.is_string()) return fail(Code::kInternal, reader.pathOf(name) + ": not ours");
    out.emplace_back(item.get_string());
  }
  return out;
}

template <class T>
void putIf(json::object& object, std::string_view name, const std::optional<T>& value) {
  if (value) object[name] = *value;
}
void putIf(json::object& object, std::string_view name, const std::optional<Texts>& value) {
  if (value) object[name] = arrayOf(*value);
}

// The lists of an AgentSandbox, by the names of its record.
constexpr std::pair<std::string_view, Texts AgentSandbox::*> kLists[] = {
    {"allowed_commands", &AgentSandbox::allowed_commands},
    {"forbidden_commands", &AgentSandbox::forbidden_commands},
    {"forbidden_paths", &AgentSandbox::forbidden_paths},
    {"granted_operations", &AgentSandbox::granted_operations},
    {"revoked_operations", &AgentSandbox::revoked_operations}};
// Records of earlier versions have none of these.
constexpr std::pair<std::string_view, Texts AgentSandbox::*> kLaterLists[] = {
    {"dangerous_patterns", &AgentSandbox::dangerous_patterns}};
constexpr std::pair<std::string_view, std::string AgentSandbox::*> kTexts[] = {
    {"tenant", &AgentSandbox::tenant},
    {"agent", &AgentSandbox::agent},
    {"level", &AgentSandbox::level},
    {"created_by", &AgentSandbox::created_by}};
constexpr std::pair<std::string_view, int64_t AgentSandbox::*> kTimes[] = {
    {"created_at", &AgentSandbox::created_at},
    {"last_modified", &AgentSandbox::last_modified},
    {"level_since", &AgentSandbox::level_since}};

Result<AgentLimits> readLimits(ObjectReader& reader) {
  AgentLimits limits;
  for (const AgentLimitKind& kind : kAgentLimits) {
    if (const auto n = TRY(reader.integer(kind.name, 0, kind.most)))
      limits.*kind.member = static_cast<uint64_t>(*n);
  }
  TRY(reader.finish());
  return limits;
}

Result<AgentEscalation> readEscalation(ObjectReader& reader) {
  AgentEscalation escalation;
  escalation.auto_approve_safe = TRY(reader.boolean("auto_approve_safe"));
  if (reader.any("require_human_approval") != nullptr)
    escalation.require_human_approval = TRY(textsOf(reader, "require_human_approval"));
  if (const auto n = TRY(reader.integer("timeout_seconds", 0, kMost)))
    escalation.timeout_seconds = static_cast<uint64_t>(*n);
  escalation.fallback_action = TRY(reader.text("fallback_action"));
  if (reader.any("notification_channels") != nullptr)
    escalation.notification_channels = TRY(textsOf(reader, "notification_channels"));
  TRY(reader.finish());
  return escalation;
}

Result<std::vector<ParameterRestriction>> readRestrictions(ObjectReader& reader) {
  constexpr std::string_view kName = "parameter_restrictions";
  std::vector<ParameterRestriction> out;
  const json::array* items = TRY(reader.array(kName));
  if (items == nullptr) return out;
  for (const json::value& item : *items) {
    if (!item.is_object()) return fail(Code::kInternal, std::string(kName) + ": not ours");
    ObjectReader inner(item.get_object(), std::string(kName));
    ParameterRestriction& one = out.emplace_back();
    one.command = TRY(inner.text("command")).value_or("");
    for (const auto& [name, member] : kParameterLists)
      one.*member = TRY(textsOf(inner, name));
    TRY(inner.finish());
  }
  return out;
}

Result<std::vector<TemporaryPermission>> readTemporary(ObjectReader& reader) {
  std::vector<TemporaryPermission> out;
  const json::array* items = TRY(reader.array("temporary_permissions"));
  if (items == nullptr) return out;
  for (const json::value& item : *items) {
    if (!item.is_object()) return fail(Code::kInternal, "temporary_permissions: not ours");
    ObjectReader inner(item.get_object(), "temporary_permissions");
    TemporaryPermission one;
    one.operation = TRY(inner.text("operation")).value_or("");
    one.pattern = TRY(inner.text("pattern")).value_or("");
    one.expires_at = TRY(inner.integer("expires_at", 0, kMost)).value_or(0);
    one.escalation_id = TRY(inner.text("escalation_id")).value_or("");
    TRY(inner.finish());
    out.push_back(std::move(one));
  }
  return out;
}

}  // namespace

bool isAgentOperation(std::string_view name) {
  return std::ranges::find(kAgentOperations, name) != std::end(kAgentOperations);
}

bool isApprovalKind(std::string_view name) {
  return std::ranges::find(kApprovalKinds, name) != std::end(kApprovalKinds);
}

std::string approvalKindNames() {
  std::string names;
  for (const std::string_view kind : kApprovalKinds)
    names.append(names.empty() ? "" : ", ").append(kind);
  return names;
}

Result<> checkAgentName(std::string_view name, const std::string& field) {
  const auto control = [](char c) { return static_cast<uint8_t>(c) < ' ' || c == 0x7f; };
  if (!name.empty() && name.size() <= kMaxAgentName && !std::ranges::any_of(name, control) &&
      base::isUtf8(name)) {
    return {};
  }
  return fail(Code::kInvalid, field + ": must be 1 to 128 bytes of text without control characters",
              field);
}

json::object toJsonObject(const ParameterRestriction& restriction) {
  json::object out = {{"command", restriction.command}};
  for (const auto& [name, member] : kParameterLists)
    out[name] = arrayOf(restriction.*member);
  return out;
}

json::object toRecord(const AgentSandbox& sandbox) {
  json::object record;
  for (const auto& [name, member] : kTexts)
    record[name] = sandbox.*member;
  for (const auto& [name, member] : kTimes)
    record[name] = sandbox.*member;
  for (const auto& [name, member] : kLists)
    record[name] = arrayOf(sandbox.*member);
  json::object limits;
  for (const AgentLimitKind& kind : kAgentLimits)
    putIf(limits, kind.name, sandbox.limits.*kind.member);
  record["limits"] = std::move(limits);
  // Only if set, so that records of earlier versions stay the same.
  if (sandbox.nested) record["nested"] = true;
  if (sandbox.whitelist_mode) record["whitelist_mode"] = true;
  for (const auto& [name, member] : kLaterLists)
    if (!(sandbox.*member).empty()) record[name] = arrayOf(sandbox.*member);
  json::array restrictions;
  for (const ParameterRestriction& one : sandbox.parameter_restrictions)
    restrictions.push_back(toJsonObject(one));
  if (!restrictions.empty()) record["parameter_restrictions"] = std::move(restrictions);
  json::object escalation;
  putIf(escalation, "auto_approve_safe", sandbox.escalation.auto_approve_safe);
  putIf(escalation, "require_human_approval", sandbox.escalation.require_human_approval);
  putIf(escalation, "timeout_seconds", sandbox.escalation.timeout_seconds);
  putIf(escalation, "fallback_action", sandbox.escalation.fallback_action);
  putIf(escalation, "notification_channels", sandbox.escalation.notification_channels);
  record["escalation"] = std::move(escalation);
  json::array temporary;
  for (const TemporaryPermission& one : sandbox.temporary_permissions) {
    temporary.push_back(json::object{{"operation", one.operation},
                                     {"pattern", one.pattern},
                                     {"expires_at", one.expires_at},
                                     {"escalation_id", one.escalation_id}});
  }
  record["temporary_permissions"] = std::move(temporary);
  record["violation_count"] = sandbox.violation_count;
  record["version"] = sandbox.version;
  return record;
}

Result<AgentSandbox> parseAgentRecord(const json::object& record) {
  ObjectReader reader(record, "");
  AgentSandbox sandbox;
  for (const auto& [name, member] : kTexts)
    sandbox.*member = TRY(reader.text(name)).value_or("");
  for (const auto& [name, member] : kTimes)
    sandbox.*member = TRY(reader.integer(name, 0, kMost)).value_or(0);
  for (const auto& [name, member] : kLists)
    sandbox.*member = TRY(textsOf(reader, name));
  for (const auto& [name, member] : kLaterLists)
    sandbox.*member = TRY(textsOf(reader, name));
  sandbox.whitelist_mode = TRY(reader.boolean("whitelist_mode")).value_or(false);
  sandbox.parameter_restrictions = TRY(readRestrictions(reader));
  if (const json::object* object = TRY(reader.object("limits"))) {
    ObjectReader inner(*object, "limits");
    sandbox.limits = TRY(readLimits(inner));
  }
  if (const json::object* object = TRY(reader.object("escalation"))) {
    ObjectReader inner(*object, "escalation");
    sandbox.escalation = TRY(readEscalation(inner));
  }
  sandbox.nested = TRY(reader.boolean("nested")).value_or(false);
  sandbox.temporary_permissions = TRY(readTemporary(reader));
  sandbox.violation_count =
      static_cast<uint64_t>(TRY(reader.integer("violation_count", 0, kMost)).value_or(0));
  sandbox.version = static_cast<uint64_t>(TRY(reader.integer("version", 0, kMost)).value_or(0));
  TRY(reader.finish());
  if (sandbox.tenant.empty() || sandbox.agent.empty() || sandbox.level.empty()) {
    return fail(Code::kInternal, "reading an agent's sandbox: its record is not ours");
  }
  return sandbox;
}

std::string shownText(std::string_view text) {
  const std::string_view part = base::withoutCutCharacter(text.substr(0, Violation::kMaxShown));
  return base::isUtf8(part) ? std::string(part) : "(not UTF-8)";
}

}  // namespace cloister::model
