// SPDX-License-Identifier: Apache-2.0
// Interfaces of other services, for their unmodified clients: /e2b, /opensandbox and /letta. Each
// interface is a folder here, and translates to the services behind /v1: a sandbox of theirs is a
// session of ours, with the same policy, quotas, agents and audit log. docs/howto has a
// page for the users of each, and docs/adr/0112 gives the reasons.
//
// To add an interface: a folder with a Dialect and a table of routes, and a row in compat.cc. All
// code runs on the io thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "api/http/dialect.h"
#include "api/http/router.h"
#include "api/rest/rest.h"

namespace cloister::api::compat {

struct Facade {
  std::unique_ptr<Dialect> dialect;
  std::vector<Route> routes;
};

// All interfaces. `parts` outlives the result, and the result outlives its routes' router.
std::vector<Facade> facades(RestParts& parts);

// The image for a client's template or image: of `compat.images`, or "", policy's choice, for the
// well-known names of the embedded image. kNotFound names the template and the setting.
Result<std::string> imageOf(const RestParts& parts, std::string_view name);

// The body as an object; an absent or empty body is an empty object.
Result<base::json::object> bodyOf(const RestParts& parts, const Request& request);

// The JSON text with a line's end, for streams of one document a line (NDJSON).
std::string jsonLine(const base::json::value& value);
// An event of Server-Sent Events without a name.
std::string sseData(const base::json::value& value);

// Makes the answer the given JSON document. Content-Type is replaced.
void setJson(Response& response, const base::json::value& value);

}  // namespace cloister::api::compat
