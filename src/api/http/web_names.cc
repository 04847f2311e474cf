// SPDX-License-Identifier: Apache-2.0
#include "api/http/web_names.h"

#include <algorithm>
#include <charconv>

#include "api/http/http.h"
#include "base/id.h"

namespace cloister::api {
namespace {

constexpr std::string_view kRequestMethod = "access-control-request-method";
constexpr std::string_view kRequestHeaders = "access-control-request-headers";
constexpr std::string_view kRequestPrivate = "access-control-request-private-network";

bool isPreflight(const Request& request) {
  return request.method == "OPTIONS" && request.count(kRequestMethod) > 0;
}

constexpr size_t kLongestName = 260;
constexpr size_t kLongestPrefix = 256;

// The last element of a list: only the proxy that speaks to us wrote that.
std::string_view lastElement(std::string_view list) {
  const size_t comma = list.rfind(',');
  std::string_view last = comma == std::string_view::npos ? list : list.substr(comma + 1);
  while (last.starts_with(' ') || last.starts_with('\t'))
    last.remove_prefix(1);
  while (last.ends_with(' ') || last.ends_with('\t'))
    last.remove_suffix(1);
  return last;
}

std::string_view forwarded(const Request& request, std::string_view name) {
  std::string_view value;
  for (const Header& header : request.headers) {
    if (header.name == name) value = header.value;
  }
  return lastElement(value);
}

bool isAuthority(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]";
  return !text.empty() && text.size() <= kLongestName &&
         text.find_first_not_of(kPlain) == std::string_view::npos;
}

// "" or "/path" without a slash at the end; nullopt for a text that is no plain path.
std::optional<std::string> prefixOf(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~/-";
  while (text.ends_with('/'))
    text.remove_suffix(1);
  if (text.empty()) return "";
  const std::string whole = std::string(text) + "/";
  const bool dots = whole.contains("/./") || whole.contains("/../");
  if (!text.starts_with('/') || text.contains("//") || dots || text.size() > kLongestPrefix ||
      text.find_first_not_of(kPlain) != std::string_view::npos) {
    return std::nullopt;
  }
  return std::string(text);
}

bool isProxy(const std::optional<base::Address>& peer, const WebNames& names) {
  return peer && std::ranges::any_of(names.proxies, [&](const base::Network& each) {
           return each.contains(*peer);
         });
}

// The address of the client, as the nearest proxies saw the client.
void findPeer(Request& request, const WebNames& names) {
  std::string all;
  for (const Header& header : request.headers) {
    if (header.name == "x-forwarded-for") all += (all.empty() ? "" : ",") + header.value;
  }
  std::string_view rest = all;
  while (!rest.empty() && isProxy(request.peer, names)) {
    const auto address = base::Address::parse(lastElement(rest));
    if (!address) return;
    request.peer = address;
    rest = rest.substr(0, rest.rfind(',') == std::string_view::npos ? 0 : rest.rfind(','));
  }
}

// As browsers write an origin: without the port that the scheme has by itself.
std::string originOf(bool secure, std::string_view authority) {
  const std::string_view own = secure ? ":443" : ":80";
  if (authority.ends_with(own)) authority.remove_suffix(own.size());
  return (secure ? "https://" : "http://") + std::string(authority);
}

std::string_view withoutDot(std::string_view name) {
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

}  // namespace

void noteWayHere(Request& request, const WebNames& names) {
  bool secure = request.secure;
  std::string authority = lowerCase(request.header("host"));
  request.base_path = names.base_path;
  if (isProxy(request.peer, names)) {
    const std::string proto = lowerCase(forwarded(request, "x-forwarded-proto"));
    if (proto == "https" || proto == "http") secure = proto == "https";
    std::string host = lowerCase(forwarded(request, "x-forwarded-host"));
    if (isAuthority(host)) authority = std::move(host);
    if (request.count("x-forwarded-prefix") > 0) {
      request.base_path =
          prefixOf(forwarded(request, "x-forwarded-prefix")).value_or(names.base_path);
    }
    findPeer(request, names);
  }
  request.origin = isAuthority(authority) ? originOf(secure, authority) : "";
}

std::string_view hostOf(std::string_view authority) {
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

std::optional<HostPort> hostPortOf(std::string_view host, std::string_view domain) {
  if (domain.empty()) return std::nullopt;
  const std::string lower = lowerCase(hostOf(host));
  const std::string_view name = withoutDot(lower);
  const std::string below = "." + std::string(hostOf(domain));
  if (!name.ends_with(below)) return std::nullopt;
  const std::string_view label = name.substr(0, name.size() - below.size());
  const size_t dash = std::min(label.find('-'), label.size());
  HostPort named;
  const char* end = label.data() + dash;
  const auto parsed = std::from_chars(label.data(), end, named.port);
  const bool plain = parsed.ec == std::errc() && parsed.ptr == end && named.port > 0;
  std::string id(label.substr(std::min(dash + 1, label.size())));
  if (const size_t at = id.find('-'); at != std::string::npos) id[at] = '_';
  if (plain && base::isId("ses", id)) named.session = std::move(id);
  return named;
}

std::string hostNameOf(const std::string& session, uint16_t port, std::string_view domain,
                       std::string_view asked) {
  std::string id = session;
  std::ranges::replace(id, '_', '-');
  std::string name = std::to_string(port) + "-" + id + "." + std::string(domain);
  if (domain.contains(':')) return name;
  const std::string_view number = asked.substr(hostOf(asked).size());
  const bool plain = number.size() > 1 && number.size() <= 6 &&
                     number.find_first_not_of("0123456789", 1) == std::string_view::npos;
  return plain ? name + std::string(number) : name;
}

bool isListedOrigin(const Request& request, const WebNames& names) {
  if (names.origins.empty() || request.count("origin") != 1) return false;
  const std::string origin = lowerCase(request.header("origin"));
  return std::ranges::find(names.origins, origin) != names.origins.end();
}

std::optional<Response> preflightAnswer(const Request& request, const WebNames& names) {
  if (!isPreflight(request) || !isListedOrigin(request, names)) return std::nullopt;
  Response response;
  response.status = 204;
  response.with("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
      .with("Access-Control-Max-Age", "600");
  if (request.count(kRequestHeaders) > 0) {
    response.with("Access-Control-Allow-Headers", std::string(request.header(kRequestHeaders)));
  }
  // A page of the web that calls a service of a private network (Private Network Access).
  if (request.header(kRequestPrivate) == "true") {
    response.with("Access-Control-Allow-Private-Network", "true");
  }
  return response;
}

void allowToRead(const Request& request, const WebNames& names, Response& response) {
  if (names.origins.empty()) return;
  response.with("Vary", "Origin");
  if (!isListedOrigin(request, names)) return;
  response.with("Access-Control-Allow-Origin", std::string(request.header("origin")));
  if (isPreflight(request)) return;
  response.with("Access-Control-Expose-Headers",
                "Accept-Ranges, Content-Disposition, Content-Range, ETag, Idempotent-Replayed, "
                "Location, Mcp-Session-Id, Retry-After, WWW-Authenticate, X-Request-Id");
}

}  // namespace cloister::api
