// SPDX-License-Identifier: Apache-2.0
// /v1/audit: the append-only log, to read, to take away, to prove; receipts of executions.
#include "audit/audit.h"

#include <algorithm>
#include <charconv>

#include "api/rest/requests.h"
#include "audit/receipt.h"
#include "orchestrator/core/ledger.h"
#include "store/rows/sealed.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr int64_t kMaxEntries = 1000;
constexpr uint32_t kExportPage = 500;
constexpr size_t kMaxReason = 2000;

std::string lines(const std::vector<model::AuditEntry>& entries, const store::Scope& scope) {
  std::string text;
  for (const model::AuditEntry& entry : entries) {
    text += audit::exportLine(entry, scope);
    if (!text.ends_with('\n')) text += '\n';
  }
  return text;
}

std::unexpected<Error> wrongQuery(const std::string& name, const std::string& must) {
  return fail(Code::kInvalid, "query parameter " + name + ": must be " + must, "query." + name);
}

Result<int64_t> queryTime(const Request& request, const std::string& name, int64_t otherwise) {
  const auto text = queryText(request, name);
  if (!text) return otherwise;
  const auto time = base::parseTime(*text);
  if (!time) return wrongQuery(name, "a time as 2026-01-31T10:42:00Z, or a day as 2026-01-31");
  return *time;
}

Result<std::string> queryAction(const Request& request) {
  const std::string action = queryText(request, "action").value_or("");
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || c == '.' || c == '_'; };
  const bool kind = action.ends_with('*');
  const size_t fixed = action.size() - (kind ? 1 : 0);
  // Every action has two words: a search for a single word would never find anything.
  const size_t dot = action.find('.');
  const bool word =
      !action.empty() && !kind && (dot == 0 || dot >= action.size() - 1);  // npos, or the last
  if (word || !std::all_of(action.begin(), action.begin() + static_cast<ptrdiff_t>(fixed), fits)) {
    return wrongQuery("action",
                      "an action as escalation.approved, or escalation.* for all of a kind");
  }
  return action;
}

Result<store::AuditSearch> readSearch(const Request& request) {
  store::AuditSearch search;
  const std::string order = queryText(request, "order").value_or("oldest");
  if (order != "oldest" && order != "newest") return wrongQuery("order", "oldest or newest");
  search.newest_first = order == "newest";
  search.after =
      static_cast<uint64_t>(TRY(queryInteger(request, "after", 0, INT64_MAX)).value_or(0));
  search.before =
      static_cast<uint64_t>(TRY(queryInteger(request, "before", 1, INT64_MAX)).value_or(INT64_MAX));
  search.action = TRY(queryAction(request));
  search.by = queryText(request, "by").value_or("");
  search.agent = queryText(request, "agent").value_or("");
  search.subject = queryText(request, "subject").value_or("");
  search.execution = queryText(request, "execution_id").value_or("");
  search.since = TRY(queryTime(request, "since", 0));
  search.until = TRY(queryTime(request, "until", INT64_MAX));
  search.limit =
      static_cast<uint32_t>(TRY(queryInteger(request, "limit", 1, kMaxEntries)).value_or(100));
  return search;
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const store::AuditSearch search = CO_TRY(readSearch(request));
  const store::Scope scope = store::Scope::of(request.principal);
  // A search with filters reads many entries, so not on the io thread.
  const auto page = CO_TRY(co_await async::inBackground<Result<store::AuditPage>>(
      parts.background, [&] { return parts.store.searchAudit(scope, search); }));
  json::array items;
  for (const model::AuditEntry& entry : page.entries) {
    json::value item = CO_TRY(base::parseJson(audit::exportLine(entry, scope)));
    item.as_object().erase("sealed");
    item.as_object()["details"] = model::shownDetails(entry);
    items.push_back(std::move(item));
  }
  const json::value next = page.next ? json::value(*page.next) : json::value(nullptr);
  const bool newest = search.newest_first;
  co_return jsonResponse(200, json::object{{"entries", std::move(items)},
                                           {"next_after", newest ? json::value(nullptr) : next},
                                           {"next_before", newest ? next : json::value(nullptr)}});
}

// The entry whose position is `number`.
Result<model::AuditEntry> entryAt(RestParts& parts, const Request& request,
                                  const std::string& number) {
  int64_t position = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), position);
  const bool is_one = error == std::errc() && end == number.data() + number.size() && position > 0;
  if (is_one) {
    const auto at = static_cast<uint64_t>(position);
    auto found = TRY(parts.store.audit(store::Scope::of(request.principal), at - 1, 1));
    if (!found.empty() && found[0].position == at) return std::move(found[0]);
  }
  return fail(Code::kNotFound, "there is no audit entry at position " + number +
                                   "; GET /v1/audit has the positions");
}

Task<Result<Response>> redact(RestParts& parts, Request& request) {
  const std::string& number = request.params[0];
  const model::AuditEntry entry = CO_TRY(entryAt(parts, request, number));
  const uint64_t position = entry.position;
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  base::ObjectReader reader(body, "");
  const auto member = CO_TRY(reader.text("member"));
  const auto reason = CO_TRY(reader.text("reason"));
  CO_TRY(reader.finish());
  if (!member) co_return fail(Code::kInvalid, "member: is required", "member");
  if (!reason || reason->empty() || reason->size() > kMaxReason) {
    co_return fail(Code::kInvalid, "reason: is required, of at most 2000 bytes", "reason");
  }
  const model::AuditEvent event{
      .action = "audit.redacted",
      .subject = "audit:" + number,
      .principal = request.principal,
      .details = {{"of", position}, {"member", *member}, {"reason", *reason}}};
  auto done =
      co_await orchestrator::Ledger(parts.store)
          .write(store::redact, store::Scope::of(request.principal), position, *member, event);
  if (!done) co_return std::unexpected(done.error());
  co_return jsonResponse(200, json::object{{"position", position},
                                           {"action", entry.event.action},
                                           {"subject", entry.event.subject},
                                           {"tenant", entry.event.principal.tenant},
                                           {"member", *member},
                                           {"redacted", true}});
}

Task<Result<Response>> verify(RestParts& parts, Request&) {
  // Walks the whole log, so not on the io thread.
  const audit::Report report =
      co_await async::inBackground<audit::Report>(parts.background, [&parts]() {
        return audit::verify(parts.store, parts.audit_key.verifyKey(), parts.checkpoint_file,
                             parts.anchor_file);
      });
  co_return jsonResponse(
      200, json::object{{"ok", report.ok},
                        {"entries", report.entries},
                        {"checkpoints", report.checkpoints},
                        {"first_bad", report.first_bad},
                        {"problem", report.problem},
                        {"notes", json::array(report.notes.begin(), report.notes.end())},
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
    if (!co_await out.write(lines(*entries, scope))) co_return;
    after = store::numberFor(scope, entries->back());
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
           .query = {"after", "before", "order", "limit", "action", "by", "agent", "subject",
                     "execution_id", "since", "until"},
           .handle = [&parts](Request& request) { return list(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/audit/verify",
           .access = needs(Permission::kAuditVerify),
           .query = {},
           .handle = [&parts](Request& request) { return verify(parts, request); }},
          {.method = "POST",
           .pattern = "/v1/audit/{position}:redact",
           .access = needs(Permission::kAuditRedact),
           .query = {},
           .handle = [&parts](Request& request) { return redact(parts, request); },
           .json_body = true},
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
