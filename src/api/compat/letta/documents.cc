// SPDX-License-Identifier: Apache-2.0
#include "api/compat/letta/documents.h"

#include <utility>

#include "api/http/problem.h"

namespace cloister::api::compat::letta {

Result<store::DocumentQuery> readQuery(const Request& request, std::string_view kind) {
  constexpr int64_t kMostListed = 1000;
  store::DocumentQuery query{.kind = std::string(kind)};
  if (const auto limit = TRY(queryInteger(request, "limit", 1, kMostListed))) {
    query.limit = static_cast<uint32_t>(*limit);
  }
  query.after = queryText(request, "after").value_or("");
  query.before = queryText(request, "before").value_or("");
  const std::string order = queryText(request, "order").value_or("asc");
  if (order != "asc" && order != "desc") {
    return fail(Code::kInvalid, "query parameter order: must be asc or desc", "query.order");
  }
  query.newest_first = order == "desc";
  // Letta's cursors count in the order of the answer, the store's in the order of creation.
  if (query.newest_first) std::swap(query.after, query.before);
  return query;
}

model::AuditEvent eventOf(const char* action, const Request& request) {
  return {.action = action, .subject = {}, .principal = request.principal, .details = {}};
}

Result<json::object> bodyIn(const RestParts& parts, Request& request) {
  if (request.body.empty()) return json::object();
  auto body = parseObject(request.body, parts.bounds);
  request.body.clear();
  request.body_read();
  return body;
}

Response answer(const json::value& value) {
  return jsonResponse(200, value);
}

Result<std::string> textOf(const json::object& body, std::string_view name) {
  const json::value* value = body.if_contains(name);
  if (value == nullptr || value->is_null()) return std::string();
  if (value->is_string()) return std::string(value->get_string());
  return fail(Code::kInvalid, std::string(name) + ": must be a text", std::string(name));
}

Result<json::object> objectOf(const json::object& body, std::string_view name) {
  const json::value* value = body.if_contains(name);
  if (value == nullptr || value->is_null()) return json::object();
  if (value->is_object()) return value->get_object();
  return fail(Code::kInvalid, std::string(name) + ": must be an object", std::string(name));
}

}  // namespace cloister::api::compat::letta
