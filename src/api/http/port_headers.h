// SPDX-License-Identifier: Apache-2.0
// The rules for bytes between a client and a server in a session (/v1/sessions/{id}/ports/…, or a
// host below ports.domain). Pure.
// Both sides are hostile: the client may want its bytes to become another request inside, the
// server may want its page to act for the service's users.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/http/http.h"
#include "api/http/response_parser.h"
#include "base/result.h"

namespace cloister::api {

struct PortTarget {
  uint16_t port = 0;
  std::string token;        // of a link; "": a key
  std::string prefix;       // the server's paths begin so, "/v1/sessions/…/ports/8000"
  std::string inside;       // path and query for the server inside
  bool own_origin = false;  // the server has a host of its own: its cookies and headers are its own
};

// The path before a port: /v1/sessions/{id}/ports.
inline constexpr int kPortSegments = 4;
// In the query of a host's first request, and the name of the cookie that then has the token.
inline constexpr std::string_view kPortTokenQuery = "cloister_token";
inline constexpr std::string_view kPortCookie = "cloister-port";
// A header of E2B's clients with the token of a whole session, for ports named by Host.
inline constexpr std::string_view kTrafficToken = "e2b-traffic-access-token";
// What stands for the session in the signature of such a token.
inline std::string trafficOf(const std::string& session) {
  return "traffic " + session;
}

// The target of a request to /v1/sessions/{id}/ports/{port}[~{token}]…, or to another path with as
// many segments `before` the port, whose second parameter is the port; kInvalid for a bad port, or
// a target unfit to be sent on.
Result<PortTarget> portTarget(const Request& request, int before = kPortSegments);

// The target of a request to a host of its own. The token in the query is not for inside; kInvalid
// as portTarget().
Result<PortTarget> hostTarget(const Request& request);
// The values of the service's cookie in the request.
std::vector<std::string> portCookies(const Request& request);
// Whether another origin's page may have sent a request with the cookie: siblings below the domain
// are of the same site, so SameSite does not keep their pages out.
bool isFromElsewhere(const Request& request);
// Whether a browser opens a page, for a person.
bool opensPage(const Request& request);

// The protocol in the client's Upgrade header, in lower case; "" if none.
std::string wantedUpgrade(const Request& request);

// The head of the request for inside. Left out: headers for this hop, credentials and cookies of
// the service, a link's token, and headers that only this service may set.
std::string headForInside(const Request& request, const PortTarget& target,
                          const std::string& upgrade);

// The headers of the answer for the client. Left out: headers for this hop, cookies, challenges for
// a password, and headers that apply to all of the service's origin. A page is put in a sandbox.
std::vector<Header> headersForClient(const ResponseHead& head, const PortTarget& target);

}  // namespace cloister::api
