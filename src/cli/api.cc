// SPDX-License-Identifier: Apache-2.0
#include "cli/api.h"

#include <algorithm>

#include "cli/render/terminal.h"

namespace cloister::cli {
namespace {

// Advice for a status, beyond the server's message.
std::string_view remedyFor(int status, std::string_view message) {
  // The log has no ids, and says itself how an entry is named.
  if (status == 404 && message.contains("audit entry")) return "";
  switch (status) {
    case 401:
      return "; set CLOISTER_API_KEY or --key-file to a key that `cloister key create` gave";
    case 403:
      return "; ask an administrator of the service";
    case 404:
      return "; check the id, and that it belongs to this key's tenant and agent";
    case 429:
    case 503:
      return "; try again in a moment";
    case 507:
      return "; free space on the server's state directory";
    default:
      return "";
  }
}

Code codeOf(int status) {
  switch (status) {
    case 401:
      return Code::kUnauthorized;
    case 403:
      return Code::kDenied;
    case 404:
      return Code::kNotFound;
    case 409:
      return Code::kConflict;
    case 413:
      return Code::kTooLarge;
    case 429:
      return Code::kQuota;
    case 408:
    case 503:
      return Code::kUnavailable;
    default:
      return status >= 500 ? Code::kInternal : Code::kInvalid;
  }
}

const json::value* member(const json::object& object, std::string_view name) {
  return object.if_contains(name);
}

}  // namespace

Result<json::object> parseObject(std::string_view body) {
  json::value value = TRY(base::parseJson(body, {.max_bytes = net::BlockingClient::kMaxBody}));
  if (json::object* object = value.if_object()) return std::move(*object);
  return fail(Code::kUnavailable, "reading the server's answer: not a JSON object");
}

Error refusal(const net::HttpHead& head, std::string_view body) {
  std::string message;
  if (const auto problem = parseObject(body)) {
    message = textOf(objectOf(*problem, "error"), "message");
    if (message.empty()) message = textOf(*problem, "detail");
    if (message.empty()) message = textOf(*problem, "title");
  }
  if (message.empty()) message = "HTTP status " + std::to_string(head.status);
  constexpr size_t kLongest = 2000;
  if (message.size() > kLongest) message.resize(kLongest);
  return {
      codeOf(head.status),
      "the server refused: " + printable(message) + std::string(remedyFor(head.status, message)),
      {}};
}

Result<json::object> call(net::BlockingClient& client, std::string_view method,
                          const std::string& target, const json::object& body) {
  const std::string text = method == "GET" || method == "DELETE" ? "" : base::toJson(body);
  const net::HttpResponse response =
      TRY(client.exchange({.method = method, .target = target, .body = text}));
  if (response.head.status >= 300) return std::unexpected(refusal(response.head, response.body));
  if (response.body.empty()) return json::object{};
  return parseObject(response.body);
}

std::string textOf(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  if (value == nullptr || value->is_null() || value->is_structured()) return {};
  if (value->is_string()) return std::string(value->get_string());
  return json::serialize(*value);
}

int64_t integerOf(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  if (value == nullptr || !value->is_number()) return 0;
  boost::system::error_code error;
  const auto number = value->to_number<int64_t>(error);
  return error ? 0 : number;
}

bool boolOf(const json::object& object, std::string_view name) {
  const json::value* value = member(object, name);
  return value != nullptr && value->is_bool() && value->get_bool();
}

const json::object& objectOf(const json::object& object, std::string_view name) {
  static const json::object kEmpty;
  const json::value* value = member(object, name);
  return value != nullptr && value->is_object() ? value->get_object() : kEmpty;
}

const json::array& arrayOf(const json::object& object, std::string_view name) {
  static const json::array kEmpty;
  const json::value* value = member(object, name);
  return value != nullptr && value->is_array() ? value->get_array() : kEmpty;
}

Result<json::array> newest(net::BlockingClient& client, std::string target, std::string_view member,
                           const base::Flags& flags) {
  constexpr int64_t kMost = 100'000;
  constexpr size_t kPage = 200;
  const auto most = static_cast<size_t>(TRY(flags.integer("limit", 1, kMost)).value_or(20));
  target += (target.contains('?') ? "&limit=" : "?limit=") + std::to_string(std::min(most, kPage));
  json::array all;
  std::string cursor;
  for (;;) {
    const std::string page =
        cursor.empty() ? target : target + "&cursor=" + net::percentEncode(cursor);
    const json::object answer = TRY(call(client, "GET", page));
    for (const json::value& item : arrayOf(answer, member)) {
      if (all.size() == most) return all;
      if (item.is_object()) all.push_back(item);
    }
    std::string next = textOf(answer, "next_cursor");
    if (next.empty() || next == cursor || all.size() == most) return all;
    cursor = std::move(next);
  }
}

}  // namespace cloister::cli
