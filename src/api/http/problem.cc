// SPDX-License-Identifier: Apache-2.0
#include "api/http/problem.h"

#include <algorithm>

#include "base/log.h"
#include "model/execution.h"

namespace cloister::api {
namespace {

namespace type = model::error_type;

constexpr int kRetryAfterSeconds = 1;

struct Kind {
  int status;
  bool retryable;
};

Kind kindOf(Code code) {
  switch (code) {
    case Code::kInvalid:
      return {400, false};
    case Code::kUnauthorized:
      return {401, false};
    case Code::kDenied:
      return {403, false};
    case Code::kNotFound:
      return {404, false};
    case Code::kConflict:
      return {409, false};
    case Code::kTooLarge:
      return {413, false};
    case Code::kQuota:
      return {429, true};
    case Code::kUnavailable:
      return {503, true};
    case Code::kNoSpace:
      return {507, true};
    case Code::kUnsupported:
      return {422, false};
    case Code::kInternal:
      break;
  }
  return {500, false};
}

bool outsideBody(std::string_view field) {
  return field.empty() || field.starts_with("query.") || field.starts_with("header.") ||
         field.starts_with("url.");
}

Response document(int status, std::string_view detail, base::json::object error) {
  Response response;
  response.failure = Failure{std::string(error["type"].as_string()), std::string(detail)};
  response.status = status;
  response.with("Content-Type", "application/problem+json");
  response.body = base::toJson(base::json::object{{"type", "about:blank"},
                                                  {"title", reasonPhrase(status)},
                                                  {"status", status},
                                                  {"detail", detail},
                                                  {"error", std::move(error)}});
  return response;
}

}  // namespace

int statusOf(const Error& error) {
  if (error.code == Code::kInvalid && !outsideBody(error.field)) return 422;
  return kindOf(error.code).status;
}

Response problem(const Error& error, const Request& request) {
  const bool retryable = kindOf(error.code).retryable && !error.lasting;
  std::string message = error.message;
  if (error.code == Code::kInternal) {
    base::log(base::Level::kError, "request failed",
              {{"request", request.id}, {"route", request.route}, {"error", error.message}});
    message = "internal error; the log has it under " + request.id;
  }
  base::json::object details;
  if (!error.field.empty()) details["field"] = error.field;
  Response response = document(statusOf(error), message,
                               {{"type", model::errorTypeOf(error.code)},
                                {"message", message},
                                {"details", std::move(details)},
                                {"retryable", retryable}});
  response.failure->unsupported = error.code == Code::kUnsupported;
  if (retryable) {
    const int seconds = std::max(kRetryAfterSeconds, error.retry_after_seconds);
    response.with("Retry-After", std::to_string(seconds));
  }
  if (error.code == Code::kUnauthorized) response.with("WWW-Authenticate", "Bearer");
  return response;
}

Response lacks(model::Permission permission) {
  const model::Grant& grant = model::grants()[static_cast<size_t>(permission)];
  const std::string message =
      "this needs the permission " + std::string(grant.name) + " (" + std::string(grant.what) +
      "), which these roles have: " + model::toText(grant.roles) + "; see GET /v1/whoami";
  return document(403, message,
                  {{"type", type::kPermissionDenied},
                   {"message", message},
                   {"details", base::json::object{{"permission", grant.name}}},
                   {"retryable", false}});
}

Response problem(int status, std::string_view detail) {
  const std::string_view kind = status >= 500   ? type::kInternal
                                : status == 404 ? type::kNotFound
                                                : type::kInvalidRequest;
  return document(status, detail,
                  {{"type", kind},
                   {"message", detail},
                   {"details", base::json::object()},
                   {"retryable", status == 408 || status == 503}});
}

}  // namespace cloister::api
