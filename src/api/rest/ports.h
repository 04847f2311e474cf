// SPDX-License-Identifier: Apache-2.0
// Requests to servers inside sessions, for every path that leads to a port.
#pragma once

#include "api/http/port_headers.h"
#include "api/rest/rest.h"

namespace cloister::api {

// Sends the request to a server on a port of the session `request.params[0]`, for the holder of the
// key or of the link in `target`. The route has `stream_body` and `passes_on`.
Task<Result<Response>> passToPort(RestParts& parts, Request& request, PortTarget target);

}  // namespace cloister::api
