// SPDX-License-Identifier: Apache-2.0
// /v1/audit: the append-only log, to read, to take away, to prove; receipts of executions.
#include "audit/audit.h"

#include "api/rest/awaiting.h"
#include "api/rest/rest.h"
#include "audit/receipt.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr int64_t kMaxList = 1000;
constexpr uint32_t kExportPage = 500;

std::string lines(const std::vector<model::AuditEntry>& entries) {
  std::string text;
  for (const model::AuditEntry& entry : entries) {
    text += audit::exportLine(entry);
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const auto after = CO_TRY(queryInteger(request, "after", 0, INT64_MAX)).value_or(0);
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kMaxList)).value_or(100);
  const auto entries =
      CO_TRY(parts.store.audit(store::Scope::of(request.principal), static_cast<uint64_t>(after),
                               static_cast<uint32_t>(limit)));
  json::array items;
  for (const model::AuditEntry& entry : entries)
    items.push_back(CO_TRY(base::parseJson(audit::exportLine(entry))));
  json::value next = nullptr;
  if (entries.size() == static_cast<size_t>(limit)) next = entries.back().seq;
  co_return jsonResponse(
      200, json::object{{"entries", std::move(items)}, {"next_after", std::move(next)}});
}

Task<Result<Response>> verify(RestParts& parts, Request&) {
  // Walks the whole log, so not on the io thread.
  const audit::Report report = co_await inBackground<audit::Report>(parts.background, [&parts]() {
    return audit::verify(parts.store, parts.audit_key.verifyKey(), parts.checkpoint_file);
  });
  co_return jsonResponse(200, json::object{{"ok", report.ok},
                                           {"entries", report.entries},
                                           {"checkpoints", report.checkpoints},
                                           {"first_bad", report.first_bad},
                                           {"problem", report.problem},
                                           {"head", report.head}});
}

Task<Result<Response>> publicKey(RestParts& parts, Request&) {
  const base::VerifyKey key = parts.audit_key.verifyKey();
  co_return jsonResponse(
      200, json::object{{"algorithm", "ed25519"}, {"key", key.id()}, {"public_key", key.base64()}});
}

Task<Result<Response>> receipt(RestParts& parts, Request& request) {
  co_return jsonResponse(200,
                         CO_TRY(audit::receiptOf(parts.store, store::Scope::of(request.principal),
                                                 request.params[0], parts.audit_key)));
}

Task<void> streamEntries(RestParts& parts, store::Scope scope, uint64_t after, BodyWriter& out) {
  while (true) {
    const auto entries = parts.store.audit(scope, after, kExportPage);
    if (!entries || entries->empty()) co_return;
    if (!co_await out.write(lines(*entries))) co_return;
    after = entries->back().seq;
  }
}

Task<Result<Response>> exportAll(RestParts& parts, Request& request) {
  const auto after = CO_TRY(queryInteger(request, "after", 0, INT64_MAX)).value_or(0);
  const store::Scope scope = store::Scope::of(request.principal);
  CO_TRY(parts.store.audit(scope, static_cast<uint64_t>(after), 1));
  Response response;
  response.with("Content-Type", "application/x-ndjson");
  response.stream = [&parts, scope, after](BodyWriter& out) {
    return streamEntries(parts, scope, static_cast<uint64_t>(after), out);
  };
  co_return response;
}

}  // namespace

std::vector<Route> auditRoutes(RestParts& parts) {
  return {{.method = "GET",
           .pattern = "/v1/audit",
           .access = needs(Permission::kAuditRead),
           .query = {"after", "limit"},
           .handle = [&parts](Request& request) { return list(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/audit/verify",
           .access = needs(Permission::kAuditVerify),
           .query = {},
           .handle = [&parts](Request& request) { return verify(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/audit/export",
           .access = needs(Permission::kAuditRead),
           .query = {"after"},
           .handle = [&parts](Request& request) { return exportAll(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/audit/public-key",
           .access = needs(Permission::kExecutionRead),
           .query = {},
           .handle = [&parts](Request& request) { return publicKey(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/executions/{id}/receipt",
           .access = needs(Permission::kExecutionRead),
           .query = {},
           .handle = [&parts](Request& request) { return receipt(parts, request); }}};
}

}  // namespace cloister::api
