// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/connect.h"

#include <array>
#include <utility>

#include "api/compat/compat.h"

namespace cloister::api::compat::e2b {
namespace {

constexpr char kMessage = 0;
constexpr char kCompressed = 1;
constexpr char kEnd = 2;
constexpr size_t kHead = 5;

std::string enveloped(char flags, const base::json::value& value) {
  const std::string text = base::toJson(value);
  const auto size = static_cast<uint32_t>(text.size());
  std::string out(1, flags);
  for (int shift = 24; shift >= 0; shift -= 8)
    out.push_back(static_cast<char>((size >> shift) & 0xff));
  return out + text;
}

// For errors that are known by their status alone.
std::string_view codeOfStatus(int status) {
  static constexpr std::array<std::pair<int, std::string_view>, 13> kCodes = {
      {{400, "invalid_argument"},
       {401, "unauthenticated"},
       {403, "permission_denied"},
       {404, "not_found"},
       {405, "unimplemented"},
       {409, "failed_precondition"},
       {413, "resource_exhausted"},
       {422, "invalid_argument"},
       {429, "resource_exhausted"},
       {501, "unimplemented"},
       {502, "unavailable"},
       {503, "unavailable"},
       {507, "resource_exhausted"}}};
  for (const auto& [known, code] : kCodes) {
    if (known == status) return code;
  }
  return status < 500 ? "invalid_argument" : "internal";
}

}  // namespace

bool isConnect(const Request& request) {
  return request.path.size() == 3 && request.path[1].contains('.') && request.path[0] == "e2b";
}

std::string_view connectCode(Code code) {
  switch (code) {
    case Code::kInvalid:
      return "invalid_argument";
    case Code::kUnauthorized:
      return "unauthenticated";
    case Code::kDenied:
      return "permission_denied";
    case Code::kNotFound:
      return "not_found";
    case Code::kConflict:
      return "failed_precondition";
    case Code::kTooLarge:
    case Code::kQuota:
    case Code::kNoSpace:
      return "resource_exhausted";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kUnsupported:
      return "unimplemented";
    case Code::kInternal:
      break;
  }
  return "internal";
}

void refuseConnect(const Request& request, Response& response) {
  const base::json::object error{{"code", codeOfStatus(response.status)},
                                 {"message", response.failure->message}};
  if (request.header("content-type") != kConnectStream) return setJson(response, error);
  setJson(response, nullptr);
  response.headers.back().value = std::string(kConnectStream);
  response.status = 200;
  response.body = enveloped(kEnd, base::json::object{{"error", error}});
}

std::string envelope(const base::json::value& message) {
  return enveloped(kMessage, message);
}

std::string endOfStream(const Error* error) {
  if (error != nullptr) return endOfStream(connectCode(error->code), error->message);
  return enveloped(kEnd, base::json::object());
}

std::string endOfStream(std::string_view code, std::string_view message) {
  const base::json::object error{{"code", code}, {"message", message}};
  return enveloped(kEnd, base::json::object{{"error", error}});
}

Result<std::string_view> onlyMessage(const Request& request) {
  const std::string_view body = request.body;
  if (request.header("content-type") != kConnectStream) return body;
  const auto bad = [](std::string_view why) {
    return fail(Code::kInvalid, "request body: " + std::string(why));
  };
  if (body.size() < kHead) return bad("must be an envelope with a message");
  if (body[0] == kCompressed) return bad("compressed messages are not accepted");
  if (body[0] != kMessage) return bad("must be an envelope with a message");
  uint32_t size = 0;
  for (size_t i = 1; i < kHead; ++i)
    size = (size << 8) | static_cast<uint8_t>(body[i]);
  if (body.size() - kHead != size) return bad("must be exactly one envelope");
  return body.substr(kHead);
}

}  // namespace cloister::api::compat::e2b
