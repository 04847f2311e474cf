// SPDX-License-Identifier: Apache-2.0
#include "api/http/port_headers.h"

#include <algorithm>
#include <charconv>

#include "api/http/cookies.h"
#include "base/hop_fields.h"

namespace cloister::api {
namespace {

using Names = base::FieldNames;

// Request headers with the service's credentials, or set by the service rather than by the client.
const Names kNotInside = {"host",
                          "expect",
                          "x-api-key",
                          std::string(kTrafficToken),
                          "x-access-token",
                          "open-sandbox-api-key",
                          "x-execd-access-token",
                          "opensandbox-egress-auth",
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
                           "sec-session-registration",
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

// The same where the server has a host of its own: headers that the service sets itself, and
// headers that change how browsers connect to the host.
const Names kNotFromHost = {"date",
                            "x-request-id",
                            "x-content-type-options",
                            "cache-control",
                            "set-cookie2",
                            "clear-site-data",
                            "strict-transport-security",
                            "public-key-pins",
                            "alt-svc",
                            "nel",
                            "report-to",
                            "reporting-endpoints",
                            "x-accel-redirect",
                            "x-sendfile",
                            "location"};

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

// Calls `each` for the parts of `text` between separators, without blanks around.
void forEachPart(std::string_view text, char separator, auto each) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, end);
    while (part.starts_with(' ') || part.starts_with('\t'))
      part.remove_prefix(1);
    while (part.ends_with(' ') || part.ends_with('\t'))
      part.remove_suffix(1);
    if (!part.empty()) each(part);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::string_view nameOf(std::string_view pair) {
  return pair.substr(0, pair.find('='));
}

// Whether the cookie `pair` is the service's. Browsers send a cookie without a name as its value
// alone, so "=name=value" counts, too.
bool isOurs(std::string_view pair) {
  while (pair.starts_with('=') || pair.starts_with(' ') || pair.starts_with('\t'))
    pair.remove_prefix(1);
  std::string_view name = nameOf(pair);
  while (name.ends_with(' ') || name.ends_with('\t'))
    name.remove_suffix(1);
  return lowerCase(name) == kPortCookie || isOwnCookie(name);
}

// The Cookie header without the service's own.
std::string cookiesForInside(std::string_view cookies) {
  std::string kept;
  forEachPart(cookies, ';', [&](std::string_view pair) {
    if (!isOurs(pair)) kept += (kept.empty() ? "" : "; ") + std::string(pair);
  });
  return kept;
}

// A cookie of the server's, for its host alone; "" for one of the service's names.
std::string cookieForHost(std::string_view cookie) {
  std::string kept;
  bool ours = false;
  forEachPart(cookie, ';', [&](std::string_view part) {
    if (kept.empty()) ours = isOurs(part);
    std::string_view name = nameOf(part);
    while (name.ends_with(' ') || name.ends_with('\t'))
      name.remove_suffix(1);
    if (kept.empty() || lowerCase(name) != "domain") {
      kept += (kept.empty() ? "" : "; ") + std::string(part);
    }
  });
  return ours ? "" : kept;
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

Result<PortTarget> portTarget(const Request& request, int before) {
  PortTarget target;
  const std::string& port = request.params.at(1);
  const size_t tilde = std::min(port.find('~'), port.size());
  target.port = TRY(portNumber(std::string_view(port).substr(0, tilde)));
  target.token = port.substr(std::min(tilde + 1, port.size()));
  // Slashes are never decoded, so the segments match the path's.
  size_t end = 0;
  for (int segment = 0; segment <= before; ++segment)
    end = request.target.find('/', end + 1);
  const std::string_view all = request.target;
  end = std::min({end, all.find('?'), all.size()});
  target.prefix = all.substr(0, end);
  target.inside = all.substr(end);
  if (!target.inside.starts_with('/')) target.inside.insert(0, 1, '/');
  if (isPlain(target.inside)) return target;
  return fail(Code::kInvalid, "request target: has characters that must be %-encoded", "url.path");
}

Result<PortTarget> hostTarget(const Request& request) {
  PortTarget target;
  target.port = TRY(portNumber(request.params.at(1)));
  target.own_origin = true;
  const std::string_view all = request.target;
  const size_t query = std::min(all.find('?'), all.size());
  target.inside = all.substr(0, query);
  if (!target.inside.starts_with('/')) target.inside.insert(0, 1, '/');
  std::string kept;
  forEachPart(all.substr(query), '&', [&](std::string_view pair) {
    if (pair.starts_with('?')) pair.remove_prefix(1);
    const bool token = nameOf(pair) == kPortTokenQuery;
    if (token) target.token = pair.substr(std::min(nameOf(pair).size() + 1, pair.size()));
    if (!token) kept += (kept.empty() ? "?" : "&") + std::string(pair);
  });
  const bool untouched = target.token.empty();
  target.inside += untouched ? std::string(all.substr(query)) : kept;
  if (isPlain(target.inside)) return target;
  return fail(Code::kInvalid, "request target: has characters that must be %-encoded", "url.path");
}

std::vector<std::string> portCookies(const Request& request) {
  constexpr size_t kMost = 8;  // each costs a check of its signature
  std::vector<std::string> values;
  for (const Header& header : request.headers) {
    if (header.name != "cookie") continue;
    forEachPart(header.value, ';', [&](std::string_view pair) {
      if (nameOf(pair) != kPortCookie || values.size() == kMost) return;
      values.emplace_back(pair.substr(std::min(kPortCookie.size() + 1, pair.size())));
    });
  }
  return values;
}

bool isFromElsewhere(const Request& request) {
  const std::string host = lowerCase(request.header("host"));
  const std::string origin = lowerCase(request.header("origin"));
  if (!origin.empty() && origin != "http://" + host && origin != "https://" + host) return true;
  const std::string_view site = request.header("sec-fetch-site");
  const bool elsewhere = site == "same-site" || site == "cross-site";
  const bool visits = request.header("sec-fetch-mode") == "navigate" &&
                      (request.method == "GET" || request.method == "HEAD");
  return elsewhere && !visits;
}

bool opensPage(const Request& request) {
  if (request.method != "GET" || request.count("upgrade") > 0) return false;
  const std::string_view mode = request.header("sec-fetch-mode");
  return mode.empty() ? request.header("accept").contains("text/html") : mode == "navigate";
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
  return authorization.contains("clo_") || authorization.contains("e2b_") ||
         (token.starts_with("eyJ") && std::ranges::count(token, '.') == 2);
}

// Whether Authorization was meant for the server inside. With a key: if the key came in another
// header. With a link: only a bearer token, because a browser sends a password for the service's
// origin (Basic, Digest, Negotiate) to all of its paths by itself.
bool isForInside(const Request& request, const PortTarget& target, std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (mayBeOurs(authorization)) return false;
  if (target.own_origin) return true;
  if (target.token.empty()) return request.count("x-api-key") > 0;
  return lowerCase(authorization.substr(0, kScheme.size())) == kScheme;
}

// Whether a header has the link's token, which opens the port for any holder: proxies in front
// repeat the requested path (X-Original-URI).
bool hasToken(std::string_view value, const PortTarget& target) {
  if (target.token.empty()) return false;
  const std::string text = lowerCase(value);
  if (text.contains(lowerCase(target.token))) return true;
  const std::string raw = target.prefix.substr(target.prefix.rfind('/') + 1);
  return !target.own_origin && text.contains(lowerCase(raw));
}

// The server's path on the service. Not for a link, whose path has the token.
std::string forwardedPrefix(const PortTarget& target) {
  if (target.own_origin) return "";
  return target.token.empty() ? "X-Forwarded-Prefix: " + target.prefix + "\r\n" : "";
}

}  // namespace

std::string headForInside(const Request& request, const PortTarget& target,
                          const std::string& upgrade) {
  // With a host of its own, absolute URLs that the server makes of Host lead back to the server.
  const std::string_view asked = request.header("host");
  const bool own = target.own_origin && base::isOneLine(asked);
  const std::string host = own ? std::string(asked) : "localhost:" + std::to_string(target.port);
  std::string head = request.method + " " + target.inside + " HTTP/1.1\r\nHost: " + host + "\r\n";
  const Names hop = hopNames(request.headers);
  for (const Header& header : request.headers) {
    if (!base::isOneLine(header.value)) continue;
    if (own && header.name == "cookie") {
      const std::string cookies = cookiesForInside(header.value);
      if (!cookies.empty() && !hasToken(cookies, target)) head += "Cookie: " + cookies + "\r\n";
      continue;
    }
    const bool kept = own && (header.name == "origin" || header.name == "referer");
    if (hop.contains(header.name) || (kNotInside.contains(header.name) && !kept)) continue;
    if (hasToken(header.value, target)) continue;
    if (header.name == "authorization" && !isForInside(request, target, header.value)) continue;
    head += header.name + ": " + header.value + "\r\n";
  }
  if (!own && request.count("origin") > 0) head += "Origin: http://" + host + "\r\n";
  std::string proto = lowerCase(request.header("x-forwarded-proto"));
  if (target.own_origin && request.secure) proto = "https";
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

namespace {

void addLocation(std::vector<Header>& headers, const ResponseHead& head, const PortTarget& target) {
  const auto at = std::ranges::find(head.headers, "location", &Header::name);
  if (at != head.headers.end()) headers.push_back({"Location", mappedLocation(at->value, target)});
}

std::vector<Header> headersForHost(const ResponseHead& head, const PortTarget& target) {
  std::vector<Header> headers;
  const Names hop = hopNames(head.headers);
  for (const Header& header : head.headers) {
    if (hop.contains(header.name) || kNotFromHost.contains(header.name)) continue;
    if (header.name != "set-cookie") {
      headers.push_back(header);
    } else if (std::string cookie = cookieForHost(header.value); !cookie.empty()) {
      headers.push_back({"Set-Cookie", std::move(cookie)});
    }
  }
  addLocation(headers, head, target);
  headers.push_back({"X-Accel-Buffering", "no"});
  return headers;
}

}  // namespace

std::vector<Header> headersForClient(const ResponseHead& head, const PortTarget& target) {
  if (target.own_origin) return headersForHost(head, target);
  std::vector<Header> headers;
  const Names hop = hopNames(head.headers);
  for (const Header& header : head.headers) {
    if (hop.contains(header.name) || kNotOutside.contains(header.name)) continue;
    headers.push_back(header);
  }
  addLocation(headers, head, target);
  headers.push_back({"Content-Security-Policy", std::string(kSandbox)});
  headers.push_back({"Referrer-Policy", "no-referrer"});
  headers.push_back({"X-Accel-Buffering", "no"});
  if (!target.token.empty()) headers.push_back({"Access-Control-Allow-Origin", "*"});
  return headers;
}

}  // namespace cloister::api
