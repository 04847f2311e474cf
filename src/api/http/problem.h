// SPDX-License-Identifier: Apache-2.0
// Errors on HTTP: RFC 9457 problem documents with the `error` member of the run contract.
#pragma once

#include <string>
#include <string_view>

#include "api/http/http.h"
#include "base/result.h"

namespace cloister::api {

// The status for an error. kInvalid is 422 when `field` names a member of the body, else 400.
int statusOf(const Error& error);

// The answer to `error`. An internal error is logged under the request's id, and its text is not
// sent.
Response problem(const Error& error, const Request& request);

// A problem of HTTP itself (405, 415, …).
Response problem(int status, std::string_view detail);
// 403: the credential is good, and its roles do not give `permission`.
Response lacks(model::Permission permission);

}  // namespace cloister::api
