// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/http_heads.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/json.h"

namespace cloister::egress {
namespace {

namespace json = base::json;
using Names = std::set<std::string, std::less<>>;

// Fields of a single hop (RFC 9110 §7.6.1), and the framing, which is made anew.
const Names kHopFields = {"connection",
                          "keep-alive",
                          "proxy-connection",
                          "proxy-authenticate",
                          "proxy-authentication-info",
                          "proxy-authorization",
                          "te",
                          "trailer",
                          "transfer-encoding",
                          "upgrade",
                          "http2-settings",
                          "content-length"};

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return out;
}

// Adds the elements of a Connection field.
void addElements(std::string_view list, Names& names) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, comma);
    while (!one.empty() && (one.front() == ' ' || one.front() == '\t'))
      one.remove_prefix(1);
    while (!one.empty() && (one.back() == ' ' || one.back() == '\t'))
      one.remove_suffix(1);
    if (!one.empty()) names.insert(lowered(one));
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
}

// A line break in a value could start a field, or the next message.
bool isOneLine(std::string_view value) {
  return std::ranges::none_of(value, [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f;
  });
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
  Names left_out = kHopFields;
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
    if (!left_out.contains(field.name) && isOneLine(field.value)) {
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
  Names left_out = kHopFields;
  for (const auto& [name, value] : answer.fields) {
    if (lowered(name) == "connection") addElements(value, left_out);
  }
  std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " +
                     (isOneLine(answer.reason) ? answer.reason : "") + "\r\n";
  for (const auto& [name, value] : answer.fields) {
    if (!left_out.contains(lowered(name)) && isOneLine(value)) add(head, name, value);
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
