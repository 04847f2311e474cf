// SPDX-License-Identifier: Apache-2.0
// What passes between a client and a server in a session (/v1/sessions/{id}/ports/…), and what does
// not. Pure. Both sides are hostile: the client may want its bytes to become another request
// inside, the server may want its page to act for the service's users.
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
  std::string prefix;  // of the paths that are the server's, "/v1/sessions/…/ports/8000"
  std::string inside;  // path and query for it
};

// Of a request to /v1/sessions/{id}/ports/{port}[~{token}]…; kInvalid for what is no port, or
// cannot be sent on as it is.
Result<PortTarget> portTarget(const Request& request);

// The protocol of Upgrade that the client asks for, in lower case; "" if none.
std::string wantedUpgrade(const Request& request);

// The head of the request for inside. Not in it: what is meant for this hop, credentials and
// cookies of the service, a link's token, and what only this service can know.
std::string headForInside(const Request& request, const PortTarget& target,
                          const std::string& upgrade);

// The headers of its answer for the client. Not in them: what is meant for this hop, cookies,
// challenges for a password, and what would hold for all of the service's origin. A page among
// them is put in a sandbox.
std::vector<Header> headersForClient(const ResponseHead& head, const PortTarget& target);

}  // namespace cloister::api
