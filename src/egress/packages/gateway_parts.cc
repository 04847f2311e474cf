// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/gateway_parts.h"

#include <algorithm>

#include "base/json.h"
#include "egress/packages/upstream_url.h"

namespace cloister::egress {
namespace {

constexpr size_t kMostSegments = 8;
constexpr size_t kMaxReason = 240;  // bytes of a status line's phrase

bool isPlainSegment(const std::string& segment) {
  if (segment == "." || segment == "..") return false;
  return std::ranges::none_of(segment, [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0x7f ||
           c == '\\' || c == '%';
  });
}

std::string phrase(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, kMaxReason))
    out += c >= ' ' && c < 0x7f ? c : '?';
  return out;
}

}  // namespace

Result<std::vector<std::string>> segmentsOf(std::string_view path) {
  const auto bad = [] { return fail(Code::kInvalid, "The path is malformed."); };
  if (!path.starts_with('/')) return bad();
  std::vector<std::string> segments;
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    auto segment = percentDecoded(path.substr(0, end));
    path.remove_prefix(end);
    if (!segment || !isPlainSegment(*segment) || segments.size() >= kMostSegments) return bad();
    const size_t slash = segment->find('/');
    const bool scope =
        segments.empty() && segment->starts_with('@') && slash == segment->rfind('/');
    if (slash != std::string::npos && !scope) return bad();
    segments.push_back(*std::move(segment));
  }
  return segments;
}

GatewayAnswer sentence(model::Ecosystem ecosystem, int status, const std::string& text) {
  GatewayAnswer answer{.status = status, .reason = phrase(text)};
  answer.body = text + "\n";
  if (ecosystem == model::Ecosystem::kNpm) {
    answer.type = "application/json";
    answer.body = base::toJson(base::json::object{{"error", text}});
  }
  return answer;
}

GatewayAnswer refusedBy(model::Ecosystem ecosystem, const PackageRefusal& refusal) {
  constexpr int kForbidden = 403;
  GatewayAnswer answer = sentence(ecosystem, kForbidden, refusal.text() + ". " + refusal.remedy);
  answer.reason = phrase(refusal.text());
  answer.refusal = refusal;
  return answer;
}

GatewayAnswer failedBy(model::Ecosystem ecosystem, const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
      return sentence(ecosystem, 400, error.message);
    case Code::kNotFound:
      return sentence(ecosystem, 404, error.message);
    case Code::kQuota:
      return sentence(ecosystem, 503, error.message);
    default:
      return sentence(ecosystem, 502, error.message);
  }
}

}  // namespace cloister::egress
