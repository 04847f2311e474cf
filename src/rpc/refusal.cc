// SPDX-License-Identifier: Apache-2.0
#include "rpc/refusal.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>

#include "base/json.h"

namespace cloister::rpc {
namespace {

namespace json = base::json;
using grpc::StatusCode;

constexpr size_t kMaxMessage = 2'000;  // of a status: it travels in a header
constexpr size_t kMaxDetails = 2'000;

struct OfStatus {
  int http;
  StatusCode code;
};
constexpr OfStatus kOfStatus[] = {
    {400, StatusCode::INVALID_ARGUMENT},    {401, StatusCode::UNAUTHENTICATED},
    {403, StatusCode::PERMISSION_DENIED},   {404, StatusCode::NOT_FOUND},
    {405, StatusCode::UNIMPLEMENTED},       {408, StatusCode::DEADLINE_EXCEEDED},
    {409, StatusCode::FAILED_PRECONDITION}, {410, StatusCode::NOT_FOUND},
    {412, StatusCode::FAILED_PRECONDITION}, {413, StatusCode::RESOURCE_EXHAUSTED},
    {415, StatusCode::UNIMPLEMENTED},       {416, StatusCode::OUT_OF_RANGE},
    {422, StatusCode::INVALID_ARGUMENT},    {429, StatusCode::RESOURCE_EXHAUSTED},
    {431, StatusCode::RESOURCE_EXHAUSTED},  {501, StatusCode::UNIMPLEMENTED},
    {502, StatusCode::UNAVAILABLE},         {503, StatusCode::UNAVAILABLE},
    {504, StatusCode::DEADLINE_EXCEEDED},   {507, StatusCode::RESOURCE_EXHAUSTED},
};

// Types that say more than the HTTP status.
struct OfType {
  std::string_view type;
  StatusCode code;
};
constexpr OfType kOfType[] = {
    {"APPROVAL_REQUIRED", StatusCode::FAILED_PRECONDITION},
    {"CANCELLED", StatusCode::CANCELLED},
    {"TIMEOUT", StatusCode::DEADLINE_EXCEEDED},
    {"NODE_LOST", StatusCode::UNAVAILABLE},
    {"RUNNER_LOST", StatusCode::UNAVAILABLE},
    {"SERVER_RESTART", StatusCode::UNAVAILABLE},
    {"SANDBOX_STARTUP_FAILED", StatusCode::UNAVAILABLE},
};

StatusCode codeOf(int http, std::string_view type) {
  const auto typed = std::ranges::find(kOfType, type, &OfType::type);
  if (typed != std::end(kOfType)) return typed->code;
  const auto plain = std::ranges::find(kOfStatus, http, &OfStatus::http);
  if (plain != std::end(kOfStatus)) return plain->code;
  return http >= 400 && http < 500 ? StatusCode::FAILED_PRECONDITION : StatusCode::INTERNAL;
}

StatusCode codeOf(Code code) {
  switch (code) {
    case Code::kInvalid:
      return StatusCode::INVALID_ARGUMENT;
    case Code::kUnauthorized:
      return StatusCode::UNAUTHENTICATED;
    case Code::kDenied:
      return StatusCode::PERMISSION_DENIED;
    case Code::kNotFound:
      return StatusCode::NOT_FOUND;
    case Code::kConflict:
      return StatusCode::FAILED_PRECONDITION;
    case Code::kTooLarge:
    case Code::kQuota:
    case Code::kNoSpace:
      return StatusCode::RESOURCE_EXHAUSTED;
    case Code::kUnavailable:
      return StatusCode::UNAVAILABLE;
    case Code::kUnsupported:
      return StatusCode::UNIMPLEMENTED;
    case Code::kInternal:
      break;
  }
  return StatusCode::INTERNAL;
}

// The type that the REST API has for it.
std::string typeOf(Code code) {
  switch (code) {
    case Code::kUnauthorized:
    case Code::kDenied:
      return "PERMISSION_DENIED";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kQuota:
      return "QUOTA_EXCEEDED";
    case Code::kUnavailable:
    case Code::kInternal:
    case Code::kNoSpace:
      return "INTERNAL";
    default:
      return "INVALID_REQUEST";
  }
}

// The parts of a status and its details.
struct Facts {
  StatusCode code = StatusCode::INTERNAL;
  std::string message;
  std::string type;
  std::string field;
  std::string remedy;
  std::string details;  // JSON
  std::string request_id;
  std::optional<bool> retryable;
  int http = 0;
  int retry_after_seconds = 0;
};

std::string cut(std::string_view text, size_t most) {
  return std::string(base::withoutCutCharacter(text.substr(0, most)));
}

void addInfo(const Facts& facts, google::rpc::Status& status) {
  google::rpc::ErrorInfo info;
  info.set_reason(facts.type);
  info.set_domain("cloister");
  auto& metadata = *info.mutable_metadata();
  if (facts.retryable) metadata["retryable"] = *facts.retryable ? "true" : "false";
  if (facts.http != 0) metadata["http_status"] = std::to_string(facts.http);
  if (!facts.remedy.empty()) metadata["remedy"] = facts.remedy;
  if (!facts.details.empty() && facts.details.size() <= kMaxDetails) {
    metadata["details"] = facts.details;
  }
  status.add_details()->PackFrom(info);
}

grpc::Status statusOf(const Facts& facts) {
  google::rpc::Status status;
  status.set_code(facts.code);
  status.set_message(cut(facts.message, kMaxMessage));
  if (!facts.type.empty()) addInfo(facts, status);
  if (!facts.field.empty()) {
    google::rpc::BadRequest wrong;
    auto& violation = *wrong.add_field_violations();
    violation.set_field(facts.field);
    violation.set_description(status.message());
    status.add_details()->PackFrom(wrong);
  }
  if (facts.retry_after_seconds > 0) {
    google::rpc::RetryInfo retry;
    retry.mutable_retry_delay()->set_seconds(facts.retry_after_seconds);
    status.add_details()->PackFrom(retry);
  }
  if (!facts.request_id.empty()) {
    google::rpc::RequestInfo request;
    request.set_request_id(facts.request_id);
    status.add_details()->PackFrom(request);
  }
  return {facts.code, status.message(), status.SerializeAsString()};
}

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? "" : std::string(*text);
}

void readError(const json::object& error, Facts& facts) {
  facts.type = textOf(error, "type");
  if (std::string message = textOf(error, "message"); !message.empty()) {
    facts.message = std::move(message);
  }
  if (const json::value* retryable = error.if_contains("retryable")) {
    if (const bool* flag = retryable->if_bool()) facts.retryable = *flag;
  }
  const json::value* details = error.if_contains("details");
  if (details == nullptr || !details->is_object() || details->get_object().empty()) return;
  facts.field = textOf(details->get_object(), "field");
  facts.remedy = textOf(details->get_object(), "remedy");
  facts.details = base::toJson(*details);
}

int secondsOf(const std::string& header) {
  int seconds = 0;
  std::from_chars(header.data(), header.data() + header.size(), seconds);
  return std::clamp(seconds, 0, 86'400);
}

}  // namespace

Refusal::Refusal(const Error& error)
    : status(statusOf(
          {.code = codeOf(error.code),
           .message = error.message,
           .type = typeOf(error.code),
           .field = error.field,
           .remedy = {},
           .details = {},
           .request_id = {},
           .retryable = error.code == Code::kUnavailable ? std::optional(true) : std::nullopt,
           .retry_after_seconds = error.retry_after_seconds})) {}

Refusal refusalOf(const net::HttpHead& head, std::string_view body) {
  Facts facts;
  facts.message = "the service answers with " + std::to_string(head.status);
  facts.http = head.status;
  facts.request_id = head.header("x-request-id");
  facts.retry_after_seconds = secondsOf(head.header("retry-after"));
  if (const auto problem = base::parseJson(body); problem && problem->is_object()) {
    const std::string detail = textOf(problem->get_object(), "detail");
    if (!detail.empty()) facts.message = detail;
    const json::value* error = problem->get_object().if_contains("error");
    if (error != nullptr && error->is_object()) readError(error->get_object(), facts);
  }
  facts.code = codeOf(head.status, facts.type);
  return Refusal(statusOf(facts));
}

Refusal busy(std::string message) {
  return Refusal(statusOf({.code = StatusCode::RESOURCE_EXHAUSTED,
                           .message = std::move(message),
                           .type = "QUOTA_EXCEEDED",
                           .field = {},
                           .remedy = {},
                           .details = {},
                           .request_id = {},
                           .retryable = true,
                           .retry_after_seconds = 1}));
}

}  // namespace cloister::rpc
