// SPDX-License-Identifier: Apache-2.0
#include "model/escalation.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ranges>

#include "base/clock.h"
#include "model/execution.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using base::ObjectReader;

constexpr size_t kMaxReason = 2000;
constexpr int64_t kMostGrantSeconds = 2'592'000;  // 30 days, as of the configuration
constexpr size_t kMaxSubject = 8192;
constexpr size_t kMaxName = 256;

struct StatusRow {
  std::string_view name;
  std::vector<EscalationStatus> next;
};

const StatusRow& rowOf(EscalationStatus status) {
  using enum EscalationStatus;
  static const std::array<StatusRow, 5> table = {{
      {"pending", {kPending, kApproved, kDenied, kExpired}},
      {"approved", {kUsed, kExpired, kDenied, kApproved, kPending}},
      {"denied", {}},
      {"expired", {}},
      {"used", {}},
  }};
  return table.at(static_cast<size_t>(status));
}

// An operation, and the request's member with its subject; "" if the member is `request`.
struct OperationRow {
  std::string_view name;
  std::string_view subject;
};

constexpr std::array<OperationRow, 6> kOperations = {{
    {operation::kRun, ""},
    {operation::kFileRead, "path"},
    {operation::kFileWrite, "path"},
    {operation::kFileDelete, "path"},
    {operation::kCommand, "command"},
    {operation::kNetwork, "host"},
}};

// The operations with a subject.
auto inSandboxes() {
  return kOperations | std::views::filter([](const auto& row) { return !row.subject.empty(); });
}

json::value textOrNull(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(text);
}

json::value timeOrNull(int64_t at) {
  return textOrNull(base::formatTime(at));
}

json::array toArray(const std::vector<EscalationDecision>& decisions) {
  json::array array;
  for (const EscalationDecision& each : decisions) {
    array.push_back(json::object{{"decision", each.approve ? "approve" : "deny"},
                                 {"principal", toJsonObject(each.by)},
                                 {"credential", textOrNull(each.by.key_id)},
                                 {"automatic", each.automatic},
                                 {"revoked", each.revoked},
                                 {"reason", textOrNull(each.reason)},
                                 {"at", timeOrNull(each.at)}});
  }
  return array;
}

std::unexpected<Error> invalid(std::string_view field, const std::string& why) {
  return fail(Code::kInvalid, std::string(field) + ": " + why, std::string(field));
}

Result<std::string> boundedText(ObjectReader& reader, std::string_view name, size_t most) {
  std::string text = TRY(reader.text(name)).value_or("");
  if (text.size() > most) {
    return invalid(name, "must be at most " + std::to_string(most) + " bytes");
  }
  if (text.contains('\0')) return invalid(name, "must not contain NUL");
  return text;
}

}  // namespace

std::string_view statusName(EscalationStatus status) {
  return rowOf(status).name;
}

std::optional<EscalationStatus> escalationStatusFromName(std::string_view name) {
  using enum EscalationStatus;
  for (const EscalationStatus status : {kPending, kApproved, kDenied, kExpired, kUsed}) {
    if (statusName(status) == name) return status;
  }
  return std::nullopt;
}

bool mayBecome(EscalationStatus from, EscalationStatus to) {
  const auto& next = rowOf(from).next;
  return std::ranges::find(next, to) != next.end();
}

uint32_t Escalation::approvals() const {
  uint32_t count = 0;
  for (const EscalationDecision& each : decisions) {
    if (each.automatic && each.approve) return quorum;
    if (each.approve && !each.revoked) count++;
  }
  return count;
}

int64_t Escalation::dueAt() const {
  if (status == EscalationStatus::kPending) return expires_at;
  return status == EscalationStatus::kApproved ? grant_expires_at : 0;
}

bool isEscalationId(std::string_view text) {
  constexpr std::string_view kPrefix = "ESC-";
  constexpr size_t kYear = 4;
  constexpr size_t kMostDigits = 12;
  if (!text.starts_with(kPrefix)) return false;
  text.remove_prefix(kPrefix.size());
  const auto digits = [](std::string_view part) {
    return std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
  };
  if (text.size() < kYear + 1 || text[kYear] != '-') return false;
  const std::string_view number = text.substr(kYear + 1);
  return digits(text.substr(0, kYear)) && number.size() >= 3 && number.size() <= kMostDigits &&
         digits(number);
}

std::string escalationId(int year, uint64_t number) {
  char text[48];
  std::snprintf(text, sizeof text, "ESC-%04d-%03llu", year,
                static_cast<unsigned long long>(number));
  return text;
}

namespace {

constexpr std::string_view kEnvironment = "env: ";

json::array toArray(const std::vector<WantedOperation>& wanted) {
  json::array array;
  for (const WantedOperation& each : wanted)
    array.push_back(json::object{{"operation", each.operation}, {"target", each.target}});
  return array;
}

}  // namespace

json::object toJsonObject(const Escalation& e) {
  return {{"id", e.id},
          {"status", statusName(e.status)},
          {"operation", e.operation},
          {"subject", e.subject},
          {"reason", e.reason},
          {"display", e.display},
          {"requester", toJsonObject(e.requester)},
          {"execution_id", textOrNull(e.execution_id)},
          {"session_id", textOrNull(e.session_id)},
          {"waiting", e.waiting},
          {"digest", textOrNull(e.digest)},
          {"lifts", toArray(e.lifts)},
          {"rule", textOrNull(e.rule)},
          {"program", textOrNull(e.program)},
          {"required_roles", json::array(e.roles.begin(), e.roles.end())},
          {"quorum", e.quorum},
          {"approvals", e.approvals()},
          {"decisions", toArray(e.decisions)},
          {"created_at", timeOrNull(e.created_at)},
          {"expires_at", timeOrNull(e.expires_at)},
          {"decided_at", timeOrNull(e.decided_at)},
          {"grant_seconds", e.grant_us / 1'000'000},
          {"grant_expires_at", timeOrNull(e.grant_expires_at)},
          {"ended_at", timeOrNull(e.ended_at)},
          {"ended_reason", textOrNull(e.ended_reason)}};
}

std::string environmentLine(std::string_view name, std::string_view shown_value) {
  return std::string(kEnvironment).append(name).append(1, '=').append(shown_value);
}

std::string withoutValues(std::string_view display) {
  std::string out;
  while (!display.empty()) {
    const size_t end = std::min(display.find('\n'), display.size() - 1) + 1;
    std::string_view line = display.substr(0, end);
    display.remove_prefix(end);
    const size_t equals = line.starts_with(kEnvironment) ? line.find('=') : line.npos;
    if (equals == line.npos) {
      out += line;
    } else {
      out.append(line.substr(0, equals)).append(line.ends_with('\n') ? "\n" : "");
    }
  }
  return out;
}

std::string operationsInSandboxes() {
  std::string names;
  for (const OperationRow& each : inSandboxes())
    names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

bool isOperationInSandboxes(std::string_view name) {
  auto rows = inSandboxes();
  return std::ranges::find(rows, name, &OperationRow::name) != rows.end();
}

Result<EscalationRequest> parseEscalationRequest(const json::object& body) {
  ObjectReader reader(body, "");
  EscalationRequest request;
  request.operation = TRY(boundedText(reader, "operation", kMaxName));
  const auto* row = std::ranges::find(kOperations, request.operation, &OperationRow::name);
  if (row == kOperations.end()) {
    std::string names;
    for (const OperationRow& each : kOperations)
      names += (names.empty() ? "" : ", ") + std::string(each.name);
    return invalid("operation", "must be one of " + names);
  }
  if (row->subject.empty()) {
    const json::object* run = TRY(reader.object("request"));
    if (run == nullptr) {
      return invalid("request",
                     "is required for a run: the body that POST /v1/executions will get");
    }
    request.run = *run;
  } else {
    request.subject = TRY(boundedText(reader, row->subject, kMaxSubject));
    if (request.subject.empty()) {
      return invalid(row->subject, "is required for " + request.operation);
    }
  }
  request.reason = TRY(boundedText(reader, "reason", kMaxReason));
  if (request.reason.empty()) {
    return invalid("reason", "is required: say what it is for, those who decide read it");
  }
  TRY(reader.finish());
  return request;
}

Result<Vote> parseVote(const json::object& body, bool needs_reason) {
  ObjectReader reader(body, "");
  Vote vote;
  vote.reason = TRY(boundedText(reader, "reason", kMaxReason));
  if (needs_reason && vote.reason.empty()) {
    return invalid("reason", "is required: the requester reads why");
  }
  vote.approver = TRY(boundedText(reader, "approver", kMaxName));
  if (!needs_reason) {
    const auto seconds = TRY(reader.integer("grant_seconds", 1, kMostGrantSeconds));
    vote.grant_us = seconds.value_or(0) * 1'000'000;
  }
  TRY(reader.finish());
  return vote;
}

json::object toJsonObject(const EscalationPolicy& policy) {
  return {{"agent", policy.agent},
          {"auto_approve", policy.auto_approve_safe ? "safe" : "none"},
          {"set_by", policy.set_at == 0 ? json::value(nullptr) : toJsonObject(policy.set_by)},
          {"set_by_credential", textOrNull(policy.set_at == 0 ? "" : policy.set_by.key_id)},
          {"set_at", timeOrNull(policy.set_at)}};
}

Result<bool> parseAutoApprove(const json::object& body) {
  ObjectReader reader(body, "");
  const std::string word = TRY(boundedText(reader, "auto_approve", kMaxName));
  TRY(reader.finish());
  if (word == "safe") return true;
  if (word == "none") return false;
  return invalid("auto_approve", R"(must be "safe" or "none")");
}

}  // namespace cloister::model
