// SPDX-License-Identifier: Apache-2.0
#include "store/records/change_line.h"

#include <algorithm>

namespace cloister::store {
namespace {

// Members of an entry's details with fixed words or ids, and their names in the service's log.
constexpr std::pair<std::string_view, std::string_view> kMembers[] = {
    {"session", "session"},     {"session_id", "session"},    {"execution_id", "execution"},
    {"status", "status"},       {"error", "error"},           {"runtime", "runtime"},
    {"operation", "operation"}, {"escalation", "escalation"}, {"end_reason", "reason"}};
constexpr size_t kMaxText = 80;

bool isWord(std::string_view text) {
  return !text.empty() && text.size() <= kMaxText && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.' || c == ':';
  });
}

std::string_view kindOf(std::string_view subject) {
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"exec_", "execution"}, {"ses_", "session"}, {"snap_", "snapshot"}, {"ESC-", "escalation"}};
  for (const auto& [prefix, kind] : kKinds) {
    if (subject.starts_with(prefix)) return kind;
  }
  return "subject";
}

}  // namespace

ChangeLine::ChangeLine(const model::AuditEntry& entry)
    : position_(entry.position), action_(entry.event.action) {
  const model::Principal& who = entry.event.principal;
  const auto add = [this](std::string_view key, const std::string& value) {
    if (!value.empty()) fields_.emplace_back(key, value);
  };
  add(kindOf(entry.event.subject), entry.event.subject);
  for (const auto& [member, key] : kMembers) {
    const base::json::value* value = entry.event.details.if_contains(member);
    if (value == nullptr || !value->is_string()) continue;
    const std::string text(value->get_string());
    const auto same = [&](const base::LogField& field) { return field.key == key; };
    if (isWord(text) && std::ranges::none_of(fields_, same)) add(key, text);
  }
  add("tenant", who.tenant);
  add("app", who.app);
  add("agent", who.agent);
  add("user", who.user);
  add("request", who.request);
  if (who.trace) add("trace", model::toHex(who.trace.trace));
  fields_.emplace_back("audit_position", static_cast<int64_t>(position_));
}

void ChangeLine::write() const {
  base::log(base::Level::kInfo, action_, std::span(fields_));
}

}  // namespace cloister::store
