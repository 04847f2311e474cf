// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/port_links.h"

#include <charconv>
#include <optional>

#include "artifacts/links.h"
#include "base/clock.h"
#include "orchestrator/core/link_standing.h"

namespace cloister::orchestrator {
namespace {

// The format of earlier versions: a time and a signature, without a credential.
bool isOfBefore(std::string_view token) {
  const size_t dash = token.find('-');
  if (dash == 0 || dash == std::string_view::npos || dash + 1 == token.size()) return false;
  return token.substr(0, dash).find_first_not_of("0123456789") == std::string_view::npos &&
         token.substr(dash + 1).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

struct TokenParts {
  PortLinks::Verified link;
  std::string_view signature;
};

// Nothing for a text that is no token.
std::optional<TokenParts> readToken(std::string_view token) {
  const size_t first = token.find('-');
  const size_t last = token.rfind('-');
  if (first == last) return std::nullopt;  // one dash, or none
  TokenParts parts{.link = {.made_with = std::string(token.substr(first + 1, last - first - 1))},
                   .signature = token.substr(last + 1)};
  const char* end = token.data() + first;
  const auto parsed = std::from_chars(token.data(), end, parts.link.expires_at);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return parts;
}

}  // namespace

Result<std::string> PortLinks::sign(const std::string& tenant, const std::string& session,
                                    uint16_t port, int64_t expires_at,
                                    const std::string& made_with) const {
  const auto keys = TRY(keys_.of(tenant));
  return std::to_string(expires_at) + "-" + made_with + "-" +
         artifacts::signPortLink(*keys, {tenant, session, port, expires_at, made_with});
}

Result<std::string> PortLinks::signFile(const std::string& tenant, const std::string& session,
                                        const std::string& path, int64_t expires_at,
                                        const std::string& made_with) const {
  const auto keys = TRY(keys_.of(tenant));
  return std::to_string(expires_at) + "-" + made_with + "-" +
         artifacts::signFileLink(*keys, {tenant, session, path, expires_at, made_with});
}

Result<PortLinks::Verified> PortLinks::verify(const std::string& tenant, const std::string& session,
                                              uint16_t port, std::string_view token) const {
  const auto bad = [] { return fail(Code::kNotFound, "no such link to a port of a session"); };
  const auto parts = readToken(token);
  if (!parts) {
    if (!isOfBefore(token)) return bad();
    return fail(Code::kUnauthorized,
                "the link to the port is of an earlier version; ask for another");
  }
  const auto keys = keys_.find(tenant);
  const artifacts::PortLink is{tenant, session, port, parts->link.expires_at,
                               parts->link.made_with};
  if (!keys || !artifacts::verifyPortLink(*keys, is, parts->signature)) return bad();
  return unexpired(parts->link, "to the port");
}

Result<PortLinks::Verified> PortLinks::verifyFile(const std::string& tenant,
                                                  const std::string& session,
                                                  const std::string& path,
                                                  std::string_view token) const {
  const auto parts = readToken(token);
  const auto keys = keys_.find(tenant);
  if (!parts || !keys ||
      !artifacts::verifyFileLink(
          *keys, {tenant, session, path, parts->link.expires_at, parts->link.made_with},
          parts->signature)) {
    return fail(Code::kNotFound, "no such link to a file of a session");
  }
  return unexpired(parts->link, "to the file");
}

Result<PortLinks::Verified> PortLinks::unexpired(Verified link, const std::string& what) const {
  constexpr int64_t kMicros = 1'000'000;
  if (link.expires_at <= base::wallMicros() / kMicros) {
    return fail(Code::kUnauthorized, "the link " + what + " has expired; ask for another");
  }
  const auto holds = linkHolds(store_, link.made_with);
  if (holds) return link;
  if (holds.error().code != Code::kDenied) return std::unexpected(holds.error());
  return fail(Code::kUnauthorized,
              "the link " + what + " was made with a credential that is expired or revoked");
}

}  // namespace cloister::orchestrator
