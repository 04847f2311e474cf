// SPDX-License-Identifier: Apache-2.0
#include "net/url.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace cloister::net {
namespace {

constexpr size_t kMaxUrl = 2048;

bool isThisMachine(const std::string& host) {
  return host == "127.0.0.1" || host == "::1" || host == "localhost";
}

}  // namespace

std::string Url::authority() const {
  const std::string name = host.contains(':') ? "[" + host + "]" : host;
  return socket.empty() ? name + ":" + port : name;
}

std::string Url::origin() const {
  return (tls ? "https://" : "http://") + authority() + target;
}

Result<Url> parseUrl(std::string_view text) {
  const auto bad = [] {
    return fail(Code::kInvalid, "must be an https:// URL, or http:// of this machine's loopback");
  };
  const auto odd = [](char c) { return c <= ' ' || c > '~' || c == '@' || c == '#' || c == '\\'; };
  if (text.size() > kMaxUrl || std::ranges::any_of(text, odd)) return bad();
  Url url;
  url.tls = text.starts_with("https://");
  if (!url.tls && !text.starts_with("http://")) return bad();
  text.remove_prefix(text.find("//") + 2);
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  std::string_view authority = text.substr(0, end);
  url.target = text.substr(end);
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  url.port = url.tls ? "443" : "80";
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return bad();
  if (const size_t colon = authority.find(':', bracket); colon != std::string_view::npos) {
    url.port = authority.substr(colon + 1);
    authority = authority.substr(0, colon);
    constexpr size_t kMaxDigits = 5;
    if (url.port.empty() || url.port.size() > kMaxDigits ||
        url.port.find_first_not_of("0123456789") != std::string::npos) {
      return bad();
    }
  }
  url.host = bracket > 0 ? authority.substr(1, authority.size() - 2) : authority;
  if (url.host.empty() || (!url.tls && !isThisMachine(url.host))) return bad();
  return url;
}

Result<Url> parseBaseUrl(std::string_view text) {
  const std::string shown(text);
  const auto bad = [&](std::string_view why) {
    return fail(Code::kInvalid, "reading the URL \"" + shown + "\": " + std::string(why));
  };
  Url url;
  url.tls = text.starts_with("https://");
  if (!url.tls && !text.starts_with("http://")) {
    return bad("it must start with http:// or https://");
  }
  text.remove_prefix(text.find("//") + 2);
  const auto unsafe = [](char c) {
    return c <= ' ' || c >= 0x7f || c == '@' || c == '?' || c == '#';
  };
  if (std::ranges::any_of(text, unsafe)) {
    return bad("only a host, a port and a path are understood");
  }
  url.port = url.tls ? "443" : "80";
  const size_t slash = std::min(text.find('/'), text.size());
  url.target = text.substr(slash);
  while (url.target.ends_with('/'))
    url.target.pop_back();
  const std::string_view authority = text.substr(0, slash);
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : std::string_view::npos;
  const size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  url.host = authority.substr(0, colon);
  if (bracket != std::string_view::npos) {
    if (url.host.size() != bracket + 1) return bad("a malformed address");
    url.host = url.host.substr(1, bracket - 1);
  }
  if (url.host.empty()) return bad("it has no host");
  if (colon == std::string_view::npos) return url;
  const std::string_view digits = authority.substr(colon + 1);
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) {
    return bad("the port must be from 1 to 65535");
  }
  url.port = std::to_string(port);
  return url;
}

std::string percentEncode(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    const auto byte = static_cast<uint8_t>(c);
    if (plain) {
      out += c;
    } else {
      out.append({'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
  return out;
}

}  // namespace cloister::net
