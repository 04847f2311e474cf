// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/upstream_url.h"

#include <algorithm>
#include <charconv>

namespace cloister::egress {
namespace {

std::unexpected<Error> bad(std::string_view why) {
  return fail(Code::kInvalid, "a URL of the index: " + std::string(why));
}

// Dot segments are resolved before a host sees the path (RFC 3986, section 5.2.4).
std::string withoutDots(std::string_view path) {
  std::string out;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/', 1), path.size());
    const std::string_view segment = path.substr(0, end);
    path.remove_prefix(end);
    const bool last = path.empty();
    if (segment == "/.") {
      if (last) out += '/';
    } else if (segment == "/..") {
      const size_t slash = out.rfind('/');
      out.resize(slash == std::string::npos ? 0 : slash);
      if (last) out += '/';
    } else {
      out += segment;
    }
  }
  return out.starts_with('/') ? out : "/" + out;
}

Result<> readAuthority(std::string_view authority, UpstreamUrl& url) {
  if (authority.find('@') != std::string_view::npos) return bad("it has user information");
  const size_t bracket = authority.starts_with('[') ? authority.find(']') : 0;
  if (bracket == std::string_view::npos) return bad("a malformed address");
  std::string_view host = authority;
  if (const size_t colon = authority.find(':', bracket); colon != std::string_view::npos) {
    const std::string_view digits = authority.substr(colon + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
    if (error != std::errc() || end != digits.data() + digits.size() || url.port == 0) {
      return bad("a malformed port");
    }
    host = authority.substr(0, colon);
  }
  if (bracket > 0) {
    if (host.size() != bracket + 1) return bad("a malformed address");
    host = host.substr(1, bracket - 1);
  }
  for (const char c : host) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!word && c != '.' && c != '-' && c != '_' && c != ':') return bad("a malformed host");
    url.host += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  if (url.host.empty()) return bad("it has no host");
  return {};
}

int hexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool hasScheme(std::string_view reference) {
  const size_t colon = reference.find(':');
  return colon != std::string_view::npos && colon < reference.find_first_of("/?");
}

}  // namespace

std::string UpstreamUrl::authority() const {
  const std::string name = host.contains(':') ? "[" + host + "]" : host;
  const bool usual = port == (tls ? 443 : 80);
  return usual ? name : name + ":" + std::to_string(port);
}

std::string UpstreamUrl::text() const {
  return (tls ? "https://" : "http://") + authority() + target;
}

Result<UpstreamUrl> parseUpstreamUrl(std::string_view text) {
  text = text.substr(0, text.find('#'));
  const auto odd = [](char c) {
    return c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '<';
  };
  if (text.size() > kMaxUpstreamUrl) return bad("it is too long");
  if (std::ranges::any_of(text, odd)) return bad("it has characters that a URL cannot have");
  UpstreamUrl url;
  url.tls = text.starts_with("https://");
  if (!url.tls && !text.starts_with("http://")) return bad("it is not of http or https");
  url.port = url.tls ? 443 : 80;
  text.remove_prefix(text.find("//") + 2);
  const size_t end = std::min(text.find_first_of("/?"), text.size());
  TRY(readAuthority(text.substr(0, end), url));
  const std::string_view rest = text.substr(end);
  const size_t query = std::min(rest.find('?'), rest.size());
  url.target = withoutDots(rest.substr(0, query)) + std::string(rest.substr(query));
  return url;
}

Result<UpstreamUrl> resolveUrl(const UpstreamUrl& base, std::string_view reference) {
  reference = reference.substr(0, reference.find('#'));
  if (hasScheme(reference)) return parseUpstreamUrl(reference);
  const std::string scheme = base.tls ? "https:" : "http:";
  if (reference.starts_with("//")) return parseUpstreamUrl(scheme + std::string(reference));
  const std::string origin = scheme + "//" + base.authority();
  if (reference.starts_with('/')) return parseUpstreamUrl(origin + std::string(reference));
  const std::string_view path = std::string_view(base.target).substr(0, base.target.find('?'));
  if (reference.empty() || reference.starts_with('?')) {
    return parseUpstreamUrl(origin + std::string(path) + std::string(reference));
  }
  const std::string folder(path.substr(0, path.rfind('/') + 1));
  return parseUpstreamUrl(origin + folder + std::string(reference));
}

Result<std::string> percentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hexValue(text[i + 1]) : -1;
    const int low = high < 0 ? -1 : hexValue(text[i + 2]);
    if (low < 0) return fail(Code::kInvalid, "a malformed escape");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

}  // namespace cloister::egress
