// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/port_links.h"

#include <charconv>

#include "artifacts/links.h"
#include "base/clock.h"

namespace cloister::orchestrator {
namespace {

// The format of earlier versions: a time and a signature, without a credential.
bool isOfBefore(std::string_view token) {
  const size_t dash = token.find('-');
  if (dash == 0 || dash == std::string_view::npos || dash + 1 == token.size()) return false;
  return token.substr(0, dash).find_first_not_of("0123456789") == std::string_view::npos &&
         token.substr(dash + 1).find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Result<std::string> PortLinks::sign(const std::string& tenant, const std::string& session,
                                    uint16_t port, int64_t expires_at,
                                    const std::string& made_with) const {
  const auto keys = TRY(keys_.of(tenant));
  return std::to_string(expires_at) + "-" + made_with + "-" +
         artifacts::signPortLink(*keys, {tenant, session, port, expires_at, made_with});
}

Result<PortLinks::Verified> PortLinks::verify(const std::string& tenant, const std::string& session,
                                              uint16_t port, std::string_view token) const {
  const auto bad = [] { return fail(Code::kNotFound, "no such link to a port of a session"); };
  const size_t first = token.find('-');
  const size_t last = token.rfind('-');
  if (first == last) {  // one dash, or none
    if (!isOfBefore(token)) return bad();
    return fail(Code::kUnauthorized,
                "the link to the port is of an earlier version; ask for another");
  }
  Verified link{.made_with = std::string(token.substr(first + 1, last - first - 1))};
  const char* end = token.data() + first;
  const auto parsed = std::from_chars(token.data(), end, link.expires_at);
  if (parsed.ec != std::errc() || parsed.ptr != end) return bad();
  const auto keys = keys_.find(tenant);
  const artifacts::PortLink is{tenant, session, port, link.expires_at, link.made_with};
  if (!keys || !artifacts::verifyPortLink(*keys, is, token.substr(last + 1))) return bad();
  constexpr int64_t kMicros = 1'000'000;
  if (link.expires_at <= base::wallMicros() / kMicros) {
    return fail(Code::kUnauthorized, "the link to the port has expired; ask for another");
  }
  const auto holds = store::stillHolds(store_, link.made_with);
  if (holds) return link;
  if (holds.error().code != Code::kDenied) return std::unexpected(holds.error());
  return fail(Code::kUnauthorized,
              "the link to the port was made with a credential that is expired or revoked");
}

}  // namespace cloister::orchestrator
