// SPDX-License-Identifier: Apache-2.0
#include "model/audit_entry.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/crypto.h"

namespace cloister::model {
namespace {

using base::json::kind;

// RFC 8785 §3.2.2.2: two-character escapes where defined, \u00xx for other controls.
void writeString(std::string& out, std::string_view text) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t";
  constexpr std::string_view kLetters = "\"\\bfnrt";
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    if (const size_t at = kEscaped.find(c); at != std::string_view::npos) {
      out += '\\';
      out += kLetters[at];
    } else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void writeValue(std::string& out, const base::json::value& value);

void writeArray(std::string& out, const base::json::array& array) {
  out += '[';
  for (size_t i = 0; i < array.size(); ++i) {
    if (i > 0) out += ',';
    writeValue(out, array[i]);
  }
  out += ']';
}

void writeObject(std::string& out, const base::json::object& object) {
  std::vector<const base::json::key_value_pair*> members;
  members.reserve(object.size());
  for (const auto& member : object)
    members.push_back(&member);
  std::ranges::sort(members, {},
                    [](const auto* member) { return std::string_view(member->key()); });
  out += '{';
  for (size_t i = 0; i < members.size(); ++i) {
    if (i > 0) out += ',';
    writeString(out, members[i]->key());
    out += ':';
    writeValue(out, members[i]->value());
  }
  out += '}';
}

void writeValue(std::string& out, const base::json::value& value) {
  switch (value.kind()) {
    case kind::null:
      out += "null";
      return;
    case kind::bool_:
      out += value.get_bool() ? "true" : "false";
      return;
    case kind::int64:
      out += std::to_string(value.get_int64());
      return;
    case kind::uint64:
      out += std::to_string(value.get_uint64());
      return;
    case kind::double_:
      return writeString(out, std::to_string(value.get_double()));
    case kind::string:
      return writeString(out, value.get_string());
    case kind::array:
      return writeArray(out, value.get_array());
    case kind::object:
      return writeObject(out, value.get_object());
  }
}

void writeMember(std::string& out, std::string_view name, std::string_view text) {
  out.append(",\"").append(name).append("\":");
  writeString(out, text);
}

// Values that may have to be forgotten: free text, by the prefix of the action.
struct Sealable {
  std::string_view action;
  std::string_view member;
};
constexpr Sealable kSealable[] = {{"agent.violation", "what"}, {"agent.violation", "reason"},
                                  {"escalation.", "reason"},   {"escalation.", "what"},
                                  {"execution.", "reason"},    {"policy.", "note"},
                                  {"audit.redacted", "reason"}};

}  // namespace

bool isSealable(std::string_view action, std::string_view member) {
  return std::ranges::any_of(kSealable, [&](const Sealable& each) {
    return action.starts_with(each.action) && member == each.member;
  });
}

std::string sealOf(const SealedMember& member) {
  return base::sha256Hex("cloister-audit-seal v1\n" + member.salt + "\n" +
                         canonicalJson(member.value));
}

std::string sealIn(const base::json::value& value) {
  constexpr size_t kDigits = 64;
  const base::json::object* object = value.if_object();
  if (object == nullptr || object->size() != 1) return {};
  const base::json::value* digest = object->if_contains("sealed");
  if (digest == nullptr || !digest->is_string() || digest->get_string().size() != kDigits)
    return {};
  return std::string(digest->get_string());
}

base::json::object shownDetails(const AuditEntry& entry) {
  base::json::object details = entry.event.details;
  for (const SealedMember& member : entry.sealed)
    details[member.name] = member.value;
  return details;
}

std::string canonicalJson(const base::json::value& value) {
  std::string out;
  writeValue(out, value);
  return out;
}

std::string canonicalForm(const AuditEntry& entry) {
  std::string out = "{\"seq\":" + std::to_string(entry.seq) + ",\"at\":" + std::to_string(entry.at);
  writeMember(out, "action", entry.event.action);
  writeMember(out, "subject", entry.event.subject);
  writeMember(out, "tenant", entry.event.principal.tenant);
  writeMember(out, "app", entry.event.principal.app);
  writeMember(out, "agent", entry.event.principal.agent);
  writeMember(out, "user", entry.event.principal.user);
  writeMember(out, "key", entry.event.principal.key_id);
  out += ",\"details\":";
  writeObject(out, entry.event.details);
  writeMember(out, "prev", entry.prev);
  return out + "}";
}

}  // namespace cloister::model
