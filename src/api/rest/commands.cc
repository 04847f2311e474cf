// SPDX-License-Identifier: Apache-2.0
// /v1/commands: the command filter's verdict on a command. Nothing is run and nothing is recorded.
#include "api/rest/requests.h"
#include "api/rest/rest.h"

namespace cloister::api {
namespace {

Task<Result<Response>> explain(RestParts& parts, Request& request) {
  if (!parts.explain_command)
    co_return fail(Code::kUnsupported, "commands:explain: no levels were given");
  const base::json::object question = CO_TRY(parseObject(request.body, parts.bounds));
  co_return jsonResponse(200, CO_TRY(parts.explain_command(question)));
}

}  // namespace

std::vector<Route> commandRoutes(RestParts& parts) {
  return {{.method = "POST",
           .pattern = "/v1/commands:explain",
           .access = needs(Permission::kServiceRead),
           .query = {},
           .handle = [&parts](Request& request) { return explain(parts, request); },
           .json_body = true}};
}

}  // namespace cloister::api
