// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/http_heads.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/hop_fields.h"
#include "base/json.h"

namespace cloister::egress {
namespace {

namespace json = base::json;

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

// Adds the fields that the value of a Connection field names.
void addElements(std::string_view list, base::FieldNames& names) {
  for (std::string& name : base::listElements(list))
    names.insert(std::move(name));
}

std::string_view titleOf(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 405:
      return "Method Not Allowed";
    case 417:
      return "Expectation Failed";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Refused";
  }
}

// "content-type" → "Content-Type", as older clients of HTTP/1.1 expect.
std::string inCapitals(std::string name) {
  char before = '-';
  for (char& c : name) {
    if (before == '-' && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    before = c;
  }
  return name;
}

void add(std::string& head, std::string_view name, std::string_view value) {
  head.append(name).append(": ").append(value).append("\r\n");
}

}  // namespace

std::string headForOrigin(const RequestHead& request, std::string_view name, uint16_t port,
                          uint16_t usual_port) {
  base::FieldNames left_out = base::hopFields();
  left_out.insert("host");
  for (const HeadField& field : request.fields) {
    if (field.name == "connection" || field.name == "proxy-connection") {
      addElements(field.value, left_out);
    }
  }
  std::string head = request.method + " " + request.origin + " HTTP/1.1\r\n";
  std::string host(name);
  if (port != usual_port) host += ":" + std::to_string(port);
  add(head, "Host", host);
  for (const HeadField& field : request.fields) {
    if (!left_out.contains(field.name) && base::isOneLine(field.value)) {
      add(head, field.name, field.value);
    }
  }
  if (request.chunked) {
    add(head, "Transfer-Encoding", "chunked");
  } else if (request.content_length) {
    add(head, "Content-Length", std::to_string(*request.content_length));
  }
  if (request.websocket) {
    add(head, "Connection", "Upgrade");
    add(head, "Upgrade", "websocket");
  }
  return head + "\r\n";
}

std::string headForSandbox(const net::HttpHead& answer, Framing framing,
                           std::optional<uint64_t> length, bool keep) {
  constexpr int kSwitching = 101;
  base::FieldNames left_out = base::hopFields();
  for (const auto& [name, value] : answer.fields) {
    if (lowered(name) == "connection") addElements(value, left_out);
  }
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                     (base::isOneLine(answer.reason) ? answer.reason : "") + "\r\n";
  for (const auto& [name, value] : answer.fields) {
    if (!left_out.contains(lowered(name)) && base::isOneLine(value)) add(head, name, value);
  }
  if (framing == Framing::kChunked) add(head, "Transfer-Encoding", "chunked");
  if (framing != Framing::kChunked && length) {
    add(head, "Content-Length", std::to_string(*length));
  }
  if (answer.status == kSwitching) {
    add(head, "Connection", "Upgrade");
    add(head, "Upgrade", "websocket");
  } else if (answer.status >= 200) {
    add(head, "Connection", keep ? "keep-alive" : "close");
  }
  return head + "\r\n";
}

std::string ownBody(const OwnAnswer& answer) {
  json::object problem = {{"type", "about:blank"},
                          {"title", titleOf(answer.status)},
                          {"status", answer.status},
                          {"detail", answer.detail}};
  if (!answer.host.empty()) {
    problem["host"] = answer.host;
    problem["port"] = answer.port;
  }
  if (answer.ruling != nullptr) {
    problem["rule"] = answer.ruling->rule;
    problem["remedy"] = answer.ruling->remedy;
  }
  return base::toJson(problem) + "\n";
}

std::vector<std::pair<std::string, std::string>> ownFields(const OwnAnswer& answer) {
  constexpr int kTooMany = 429;
  const bool unreached = answer.status == 502 || answer.status == 503;
  std::vector<std::pair<std::string, std::string>> fields = {
      {"content-type", "application/problem+json"},
      {"cache-control", "no-store"},
      // RFC 9209: the answer is of a proxy, not of the origin.
      {"proxy-status", unreached ? "cloister; error=destination_unavailable"
                                 : "cloister; error=http_request_denied"}};
  if (answer.status == kTooMany) fields.emplace_back("retry-after", "60");
  return fields;
}

std::string ownAnswer(const OwnAnswer& answer, bool keep, bool to_head) {
  const std::string body = ownBody(answer);
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                     std::string(titleOf(answer.status)) + "\r\n";
  for (const auto& [name, value] : ownFields(answer))
    add(head, inCapitals(name), value);
  add(head, "Content-Length", std::to_string(body.size()));
  add(head, "Connection", keep ? "keep-alive" : "close");
  return head + "\r\n" + (to_head ? "" : body);
}

int statusOf(const Error& error) {
  switch (error.code) {
    case Code::kInvalid:
      return 400;
    case Code::kTooLarge:
      return 431;
    case Code::kDenied:
      return 403;
    case Code::kUnsupported:
      return error.message.contains("Expect") ? 417 : 505;
    case Code::kQuota:
      return 503;
    default:
      return 502;
  }
}

}  // namespace cloister::egress
