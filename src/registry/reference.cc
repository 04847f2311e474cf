// SPDX-License-Identifier: Apache-2.0
#include "registry/reference.h"

#include <algorithm>
#include <optional>

#include "model/image_name.h"
#include "model/shown_text.h"

namespace cloister::registry {
namespace {

constexpr size_t kMostReference = 1024;
constexpr size_t kMostRepository = 255;  // of the distribution specification
constexpr size_t kMostTag = 128;
constexpr size_t kMostShown = 200;

bool isLower(char c) {
  return c >= 'a' && c <= 'z';
}
bool isDigit(char c) {
  return c >= '0' && c <= '9';
}
bool isLetterOrDigit(char c) {
  return isLower(c) || isDigit(c) || (c >= 'A' && c <= 'Z');
}

// Of letters and digits, with one ".", one or two "_" or any number of "-" between them.
bool isComponent(std::string_view text) {
  if (text.empty() || text.front() == '.' || text.front() == '_' || text.front() == '-' ||
      text.back() == '.' || text.back() == '_' || text.back() == '-') {
    return false;
  }
  const auto allowed = [](char c) {
    return isLower(c) || isDigit(c) || c == '.' || c == '_' || c == '-';
  };
  if (!std::ranges::all_of(text, allowed)) return false;
  constexpr std::string_view kWrong[] = {"..", "___", "._", "_.", ".-", "-.", "_-", "-_"};
  return std::ranges::none_of(kWrong, [&](std::string_view wrong) { return text.contains(wrong); });
}

bool isTag(std::string_view text) {
  return !text.empty() && text.size() <= kMostTag && (isLetterOrDigit(text[0]) || text[0] == '_') &&
         std::ranges::all_of(
             text, [](char c) { return isLetterOrDigit(c) || c == '.' || c == '_' || c == '-'; });
}

// A name or an IPv4 address, or an IPv6 address in brackets; with an optional port.
bool isHost(std::string_view text) {
  const size_t bracket = text.starts_with('[') ? text.find(']') : 0;
  if (bracket == std::string_view::npos) return false;
  const size_t colon = text.find(':', bracket);
  if (colon != std::string_view::npos) {
    const std::string_view port = text.substr(colon + 1);
    if (port.empty() || port.size() > 5 || !std::ranges::all_of(port, isDigit)) return false;
  }
  const std::string_view name = text.substr(0, colon);
  const auto of_address = [](char c) { return isLetterOrDigit(c) || c == ':'; };
  if (bracket > 0) {
    return name.size() == bracket + 1 &&
           std::ranges::all_of(name.substr(1, bracket - 1), of_address);
  }
  return !name.empty() && name.front() != '-' && name.front() != '.' && name.back() != '.' &&
         std::ranges::all_of(name,
                             [](char c) { return isLetterOrDigit(c) || c == '.' || c == '-'; });
}

std::unexpected<Error> wrong(std::string_view text, std::string_view why) {
  return fail(Code::kInvalid,
              "reference " + model::safeText(text, kMostShown) + ": " + std::string(why),
              "reference");
}

// Takes "http[s]://" off the front.
std::optional<bool> schemeOf(std::string_view& text) {
  for (const auto& [scheme, tls] :
       {std::pair<std::string_view, bool>{"https://", true}, {"http://", false}}) {
    if (!text.starts_with(scheme)) continue;
    text.remove_prefix(scheme.size());
    return tls;
  }
  return std::nullopt;
}

std::string_view withoutPort(std::string_view host) {
  const size_t bracket = host.starts_with('[') ? host.find(']') : 0;
  return host.substr(0, host.find(':', bracket == std::string_view::npos ? 0 : bracket));
}

}  // namespace

bool isLoopback(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "::1" || host == "[::1]";
}

bool isRepository(std::string_view text) {
  if (text.empty() || text.size() > kMostRepository) return false;
  while (true) {
    const size_t slash = text.find('/');
    if (!isComponent(text.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

std::string Reference::text() const {
  return registry + "/" + repository + "@" + digest;
}

Result<Reference> parseReference(std::string_view text) {
  constexpr std::string_view kRemedy =
      "; a tag may name another image tomorrow, so give REF@sha256:DIGEST (`docker buildx "
      "imagetools "
      "inspect REF` and `skopeo inspect --format '{{.Digest}}' docker://REF` print the digest)";
  if (text.size() > kMostReference) return wrong(text, "is too long");
  const std::string_view whole = text;
  Reference out;
  const auto scheme = schemeOf(text);
  const size_t at = text.find('@');
  if (at == std::string_view::npos) return wrong(whole, "has no digest" + std::string(kRemedy));
  out.digest = text.substr(at + 1);
  if (!model::isImageDigest(out.digest)) {
    return wrong(whole,
                 "the digest must be sha256: and 64 lower-case hex digits" + std::string(kRemedy));
  }
  std::string_view path = text.substr(0, at);
  const size_t slash = path.find('/');
  const std::string_view first = path.substr(0, slash);
  const bool has_host = slash != std::string_view::npos &&
                        (first.contains('.') || first.contains(':') || first == "localhost");
  if (scheme && !has_host) return wrong(whole, "names no registry behind the scheme");
  if (has_host) path.remove_prefix(slash + 1);
  if (const size_t colon = path.rfind(':'); colon != std::string_view::npos) {
    if (!isTag(path.substr(colon + 1))) return wrong(whole, "the tag is malformed");
    path = path.substr(0, colon);
  }
  out.registry = has_host ? first : kDockerHub;
  std::ranges::transform(out.registry, out.registry.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
  });
  if (out.registry == "index.docker.io") out.registry = kDockerHub;
  out.tls = scheme.value_or(true);
  out.repository = path;
  if (out.registry == kDockerHub && !path.contains('/'))
    out.repository = "library/" + out.repository;
  if (!isHost(out.registry)) return wrong(whole, "the registry must be HOST or HOST:PORT");
  if (!isRepository(out.repository)) {
    return wrong(whole,
                 "the path must be of lower-case letters, digits and single . _ - between them, "
                 "with / between its parts");
  }
  if (!out.tls && !isLoopback(withoutPort(out.registry))) {
    return wrong(whole, "http:// is for registries on this machine's loopback; use https");
  }
  return out;
}

}  // namespace cloister::registry
