// SPDX-License-Identifier: Apache-2.0
#include "api/http/port_headers.h"

#include <algorithm>
#include <charconv>

#include "base/hop_fields.h"

namespace cloister::api {
namespace {

using Names = base::FieldNames;

// Request headers with the service's credentials, or set by the service rather than by the client.
const Names kNotInside = {"host",
                          "expect",
                          "x-api-key",
                          "cookie",
                          "cookie2",
                          "origin",
                          "referer",
                          "forwarded",
                          "x-forwarded-for",
                          "x-real-ip",
                          "x-forwarded-host",
                          "x-forwarded-proto",
                          "x-forwarded-prefix",
                          "x-forwarded-port"};

// Answer headers that the server sets itself, or that a browser would apply to all of the service's
// origin. On a challenge (WWW-Authenticate) a browser asks its user for a password in the service's
// name, and sends the password to the sandbox.
const Names kNotOutside = {"date",
                           "x-request-id",
                           "x-content-type-options",
                           "cache-control",
                           "set-cookie",
                           "set-cookie2",
                           "secure-session-registration",
                           "www-authenticate",
                           "optional-www-authenticate",
                           "authentication-info",
                           "authentication-control",
                           "set-login",
                           "use-as-dictionary",
                           "clear-site-data",
                           "strict-transport-security",
                           "public-key-pins",
                           "service-worker-allowed",
                           "alt-svc",
                           "nel",
                           "report-to",
                           "reporting-endpoints",
                           "origin-agent-cluster",
                           "accept-ch",
                           "referrer-policy",
                           "x-accel-redirect",
                           "x-sendfile",
                           "location",
                           "access-control-allow-origin",
                           "access-control-allow-credentials",
                           "access-control-allow-methods",
                           "access-control-allow-headers",
                           "access-control-expose-headers",
                           "access-control-max-age"};

// Scripts run, but in an origin of their own: without cookies or storage of the service's.
constexpr std::string_view kSandbox =
    "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads";

// The hop's headers, with the names listed in Connection.
Names hopNames(const std::vector<Header>& headers) {
  Names names = base::hopFields();
  for (const Header& header : headers) {
    if (header.name != "connection") continue;
    for (std::string& name : base::listElements(header.value))
      names.insert(std::move(name));
  }
  return names;
}

bool isPlain(std::string_view target) {
  return std::ranges::all_of(target, [](char c) { return c > ' ' && c < 0x7f && c != '#'; });
}

Result<uint16_t> portNumber(std::string_view text) {
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, port);
  if (parsed.ec == std::errc() && parsed.ptr == end && port > 0) return port;
  return fail(Code::kInvalid, "port: must be a whole number from 1 to 65535", "url.port");
}

// A redirect's path, as the client reaches the server inside.
std::string mappedLocation(std::string location, const PortTarget& target) {
  for (const std::string host : {"localhost", "127.0.0.1", "[::1]"}) {
    const std::string own = "http://" + host + ":" + std::to_string(target.port);
    if (!location.starts_with(own)) continue;
    const std::string rest = location.substr(own.size());
    if (!rest.empty() && !rest.starts_with('/') && !rest.starts_with('?')) continue;
    location = rest.starts_with('/') ? rest : "/" + rest;
    break;
  }
  return location.starts_with('/') && !location.starts_with("//") ? target.prefix + location
                                                                  : location;
}

}  // namespace

Result<PortTarget> portTarget(const Request& request) {
  PortTarget target;
  const std::string& port = request.params.at(1);
  const size_t tilde = std::min(port.find('~'), port.size());
  target.port = TRY(portNumber(std::string_view(port).substr(0, tilde)));
  target.token = port.substr(std::min(tilde + 1, port.size()));
  // Slashes are never decoded, so the segments match the path's.
  size_t end = 0;
  for (int segment = 0; segment < 5; ++segment)
    end = request.target.find('/', end + 1);
  const std::string_view all = request.target;
  end = std::min({end, all.find('?'), all.size()});
  target.prefix = all.substr(0, end);
  target.inside = all.substr(end);
  if (!target.inside.starts_with('/')) target.inside.insert(0, 1, '/');
  if (isPlain(target.inside)) return target;
  return fail(Code::kInvalid, "request target: has characters that must be %-encoded", "url.path");
}

std::string wantedUpgrade(const Request& request) {
  if (request.count("upgrade") != 1) return "";
  const bool said = std::ranges::any_of(request.headers, [](const Header& header) {
    return header.name == "connection" &&
           std::ranges::count(base::listElements(header.value), std::string("upgrade")) > 0;
  });
  const bool good = said && base::isOneLine(request.header("upgrade"));
  return good ? lowerCase(request.header("upgrade")) : "";
}

namespace {

// A key, or perhaps a token of the provider (RFC 7519): not for the server inside.
bool mayBeOurs(std::string_view authorization) {
  const std::string_view token = authorization.substr(authorization.rfind(' ') + 1);
  return authorization.contains("clo_") ||
         (token.starts_with("eyJ") && std::ranges::count(token, '.') == 2);
}

// Whether Authorization was meant for the server inside. With a key: if the key came in another
// header. With a link: only a bearer token, because a browser sends a password for the service's
// origin (Basic, Digest, Negotiate) to all of its paths by itself.
bool isForInside(const Request& request, const PortTarget& target, std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (mayBeOurs(authorization)) return false;
  if (target.token.empty()) return request.count("x-api-key") > 0;
  return lowerCase(authorization.substr(0, kScheme.size())) == kScheme;
}

// Whether a header has the link's token, which opens the port for any holder: proxies in front
// repeat the requested path (X-Original-URI).
bool hasToken(std::string_view value, const PortTarget& target) {
  if (target.token.empty()) return false;
  const std::string text = lowerCase(value);
  const std::string raw = target.prefix.substr(target.prefix.rfind('/') + 1);
  return text.contains(lowerCase(target.token)) || text.contains(lowerCase(raw));
}

// The server's path on the service. Not for a link, whose path has the token.
std::string forwardedPrefix(const PortTarget& target) {
  return target.token.empty() ? "X-Forwarded-Prefix: " + target.prefix + "\r\n" : "";
}

}  // namespace

std::string headForInside(const Request& request, const PortTarget& target,
                          const std::string& upgrade) {
  const std::string host = "localhost:" + std::to_string(target.port);
  std::string head = request.method + " " + target.inside + " HTTP/1.1\r\nHost: " + host + "\r\n";
  const Names hop = hopNames(request.headers);
  for (const Header& header : request.headers) {
    if (hop.contains(header.name) || kNotInside.contains(header.name)) continue;
    if (!base::isOneLine(header.value) || hasToken(header.value, target)) continue;
    if (header.name == "authorization" && !isForInside(request, target, header.value)) continue;
    head += header.name + ": " + header.value + "\r\n";
  }
  if (request.count("origin") > 0) head += "Origin: http://" + host + "\r\n";
  const std::string proto = lowerCase(request.header("x-forwarded-proto"));
  const std::string_view asked = request.header("host");
  head += "X-Forwarded-Host: " + std::string(base::isOneLine(asked) ? asked : "") +
          "\r\nX-Forwarded-Proto: " + (proto == "https" ? "https" : "http") + "\r\n" +
          forwardedPrefix(target);
  if (request.has_body) {
    const auto length = request.incoming ? request.incoming->length() : std::nullopt;
    head += length ? "Content-Length: " + std::to_string(*length) + "\r\n"
                   : std::string("Transfer-Encoding: chunked\r\n");
  } else if (request.count("content-length") > 0) {
    head += "Content-Length: 0\r\n";
  }
  head += upgrade.empty() ? "Connection: close\r\n"
                          : "Connection: Upgrade\r\nUpgrade: " + upgrade + "\r\n";
  return head + "\r\n";
}

std::vector<Header> headersForClient(const ResponseHead& head, const PortTarget& target) {
  std::vector<Header> headers;
  const Names hop = hopNames(head.headers);
  for (const Header& header : head.headers) {
    if (hop.contains(header.name) || kNotOutside.contains(header.name)) continue;
    headers.push_back(header);
  }
  if (const auto at = std::ranges::find(head.headers, "location", &Header::name);
      at != head.headers.end()) {
    headers.push_back({"Location", mappedLocation(at->value, target)});
  }
  headers.push_back({"Content-Security-Policy", std::string(kSandbox)});
  headers.push_back({"Referrer-Policy", "no-referrer"});
  headers.push_back({"X-Accel-Buffering", "no"});
  if (!target.token.empty()) headers.push_back({"Access-Control-Allow-Origin", "*"});
  return headers;
}

}  // namespace cloister::api
