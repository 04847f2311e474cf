// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/port_links.h"

#include <charconv>

#include "artifacts/links.h"
#include "base/clock.h"

namespace cloister::orchestrator {

Result<std::string> PortLinks::sign(const std::string& tenant, const std::string& session,
                                    uint16_t port, int64_t expires_at) const {
  const auto keys = TRY(keys_.of(tenant));
  return std::to_string(expires_at) + "-" +
         artifacts::signPortLink(*keys, {tenant, session, port, expires_at});
}

Result<> PortLinks::verify(const std::string& tenant, const std::string& session, uint16_t port,
                           std::string_view token) const {
  const auto bad = [] { return fail(Code::kNotFound, "no such link to a port of a session"); };
  const size_t dash = token.find('-');
  if (dash == std::string_view::npos) return bad();
  int64_t expires_at = 0;
  const auto parsed = std::from_chars(token.data(), token.data() + dash, expires_at);
  if (parsed.ec != std::errc() || parsed.ptr != token.data() + dash) return bad();
  const auto keys = keys_.find(tenant);
  const artifacts::PortLink link{tenant, session, port, expires_at};
  if (!keys || !artifacts::verifyPortLink(*keys, link, token.substr(dash + 1))) return bad();
  constexpr int64_t kMicros = 1'000'000;
  if (expires_at <= base::wallMicros() / kMicros) {
    return fail(Code::kUnauthorized, "the link to the port has expired; ask for another");
  }
  return {};
}

}  // namespace cloister::orchestrator
