// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <ctime>

#include "base/clock.h"
#include "base/crypto.h"
#include "notify/smtp.h"

namespace cloister::notify {
namespace {

using model::Escalation;

constexpr size_t kMaxSubject = 150;
constexpr size_t kBodyLine = 76;  // RFC 2045 §6.8
constexpr size_t kShown = 500;

// Printable ASCII on a single line, for any input.
std::string headerText(const std::string& text) {
  std::string out = model::safeText(text, kMaxSubject);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

// RFC 5322 §3.3, in UTC.
std::string mailDate(int64_t wall_micros) {
  constexpr int64_t kMicros = 1'000'000;
  const std::time_t seconds = wall_micros / kMicros;
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  char text[64];
  std::snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d +0000", kDays[parts.tm_wday],
                parts.tm_mday, kMonths[parts.tm_mon], parts.tm_year + 1900, parts.tm_hour,
                parts.tm_min, parts.tm_sec);
  return text;
}

std::string whoOf(const Escalation& e) {
  if (!e.requester.agent.empty()) return "agent " + e.requester.agent;
  return e.requester.user.empty() ? "a key of tenant " + e.requester.tenant
                                  : "user " + e.requester.user;
}

std::string bodyOf(const orchestrator::Message& told) {
  const Escalation& e = told.escalation;
  const auto line = [](const char* name, const std::string& value) {
    return value.empty() ? "" : std::string(name) + ": " + model::safeText(value, kShown) + "\n";
  };
  std::string roles;
  for (const std::string& role : e.roles)
    roles += (roles.empty() ? "" : " or ") + role;
  std::string text =
      line("Escalation", e.id) + line("Status", std::string(model::statusName(e.status))) +
      line("Tenant", e.requester.tenant) + line("Requested by", whoOf(e)) +
      line("Operation", e.operation) + line("What", e.subject) + line("Reason", e.reason) +
      line("Execution", e.execution_id) + line("Session", e.session_id) +
      line("Approvals",
           std::to_string(e.approvals()) + " of " + std::to_string(e.quorum) + ", by " + roles) +
      line("Expires", base::formatTime(e.expires_at));
  if (e.status == model::EscalationStatus::kPending) {
    text += "\nLook at what would run, then decide:\n  cloister escalation show " + e.id +
            "\n  cloister escalation approve " + e.id + "\n  cloister escalation deny " + e.id +
            " --reason \"...\"\n";
  }
  return text;
}

}  // namespace

bool isMailAddress(std::string_view text) {
  constexpr size_t kMost = 254;  // RFC 5321 §4.5.3.1.3
  const size_t at = text.rfind('@');
  if (text.size() > kMost || at == std::string_view::npos || at == 0 || at + 1 == text.size()) {
    return false;
  }
  return std::ranges::all_of(text, [](char c) {
    return c > ' ' && c <= '~' &&
           std::string_view("<>()[]\\,;:\"").find(c) == std::string_view::npos;
  });
}

std::string mailText(const std::string& from, const std::vector<std::string>& to,
                     const orchestrator::Message& told) {
  std::string recipients;
  for (const std::string& each : to)
    recipients += (recipients.empty() ? "" : ", ") + each;
  const Escalation& e = told.escalation;
  std::string text =
      "From: Cloister <" + from + ">\r\nTo: " + recipients + "\r\nSubject: " +
      headerText("[" + e.id + "] " + std::string(model::statusName(e.status)) + ": " + e.operation +
                 " by " + whoOf(e)) +
      "\r\nDate: " + mailDate(told.at) +
      // The same in a retry, so that a reader sees a single mail.
      "\r\nMessage-ID: <" + std::to_string(told.number) + "." +
      base::sha256Hex(e.requester.tenant + "/" + e.id).substr(0, 32) + "@cloister>" +
      "\r\nAuto-Submitted: auto-generated\r\nMIME-Version: 1.0"
      "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n";
  const std::string body = base::toBase64(bodyOf(told));
  for (size_t i = 0; i < body.size(); i += kBodyLine)
    text += body.substr(i, kBodyLine) + "\r\n";
  return text;
}

}  // namespace cloister::notify
