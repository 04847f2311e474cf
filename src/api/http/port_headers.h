// SPDX-License-Identifier: Apache-2.0
// The rules for bytes between a client and a server in a session (/v1/sessions/{id}/ports/…). Pure.
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
  std::string token;   // of a link; "": a key
  std::string prefix;  // the server's paths begin so, "/v1/sessions/…/ports/8000"
  std::string inside;  // path and query for the server inside
};

// The target of a request to /v1/sessions/{id}/ports/{port}[~{token}]…; kInvalid for a bad port, or
// a target unfit to be sent on.
Result<PortTarget> portTarget(const Request& request);

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
