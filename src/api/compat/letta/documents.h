// SPDX-License-Identifier: Apache-2.0
// Shared by the routes of /letta: pages of documents, changes with their audit rows, and answers.
#pragma once

#include <string>
#include <string_view>

#include "api/compat/letta/tool.h"
#include "api/rest/requests.h"

namespace cloister::api::compat::letta {

// The parameters of every list: limit, after, before and order. Without `limit` 50.
Result<store::DocumentQuery> readQuery(const Request& request, std::string_view kind);

model::AuditEvent eventOf(const char* action, const Request& request);

// Body members of a request; kInvalid for anything but an object.
Result<json::object> bodyIn(const RestParts& parts, Request& request);

Response answer(const json::value& value);

// A text member; "" if absent or null.
Result<std::string> textOf(const json::object& body, std::string_view name);
// An object member; empty if absent or null.
Result<json::object> objectOf(const json::object& body, std::string_view name);

}  // namespace cloister::api::compat::letta
