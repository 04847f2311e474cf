// SPDX-License-Identifier: Apache-2.0
#include "egress/broker/answers.h"

#include <algorithm>

namespace cloister::egress {
namespace {

constexpr int kPartial = 206;
constexpr int kImUsed = 226;  // RFC 3229: a difference to an earlier answer

char lowered(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
}

bool same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lowered, lowered);
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

// Whether every element of the list is "identity".
bool isIdentity(std::string_view list) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view one = trimmed(list.substr(0, comma));
    if (!one.empty() && !same(one, "identity")) return false;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return true;
}

}  // namespace

std::string unreadable(int status, const Fields& fields) {
  if (status == kPartial || status == kImUsed) return "answers with a part of its content";
  for (const auto& [name, value] : fields) {
    const bool coding = same(name, "content-encoding") || same(name, "grpc-encoding");
    if (coding && !isIdentity(value)) return "compresses its answer, though it was asked not to";
    if (same(name, "sec-websocket-extensions") && !trimmed(value).empty()) {
      return "uses a WebSocket extension that it was not asked for";
    }
  }
  return "";
}

void redactFields(Fields& fields, const redact::Patterns& values) {
  if (values.empty()) return;
  std::erase_if(fields, [&](const auto& field) { return !values.find(field.first).empty(); });
  for (auto& [name, value] : fields) {
    if (!values.find(value).empty()) value = values.redacted(value);
  }
}

bool isGrpc(const Fields& fields) {
  constexpr std::string_view kGrpc = "application/grpc";
  return std::ranges::any_of(fields, [&](const auto& field) {
    return same(field.first, "content-type") &&
           same(trimmed(field.second).substr(0, kGrpc.size()), kGrpc);
  });
}

}  // namespace cloister::egress
