// SPDX-License-Identifier: Apache-2.0
// /v1/audit/roots, /v1/audit/entries/{id}/proof: proofs for readers of single entries, who cannot
// verify the whole log (docs/AUDIT.md, "Proofs for one entry").
#include <charconv>

#include <boost/asio/steady_timer.hpp>

#include "api/rest/requests.h"
#include "api/rest/rest.h"
#include "async/awaiting.h"
#include "audit/audit.h"
#include "audit/root_keeper.h"
#include "model/shown_text.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr int64_t kMaxRoots = 1000;
// No answer comes earlier, so that its time does not tell of a period with a few thousand entries.
constexpr Millis kLeastTime{100};

Result<audit::RootKeeper*> keeperOf(const RestParts& parts) {
  if (parts.roots != nullptr) return parts.roots;
  return fail(Code::kUnsupported, "audit roots: this service was put together without them");
}

Task<Result<Response>> listRoots(RestParts& parts, Request& request) {
  CO_TRY(keeperOf(parts));
  const auto after = CO_TRY(queryInteger(request, "after", 0, INT64_MAX)).value_or(0);
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kMaxRoots)).value_or(100);
  const auto found = CO_TRY(
      store::roots(parts.store).list(static_cast<uint64_t>(after), static_cast<uint32_t>(limit)));
  json::array items;
  for (const store::StoredRoot& each : found)
    items.push_back(model::toJsonObject(each.root));
  json::value next = nullptr;
  if (found.size() == static_cast<size_t>(limit)) next = found.back().root.number;
  co_return jsonResponse(200, json::object{{"roots", std::move(items)}, {"next_after", next}});
}

// The entry with the reader's number; an entry of others is as unknown as one that is not there.
Result<model::AuditEntry> entryNumbered(RestParts& parts, const Request& request) {
  const std::string& text = request.params[0];
  const store::Scope scope = store::Scope::of(request.principal);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number > 0) {
    const auto wanted = static_cast<uint64_t>(number);
    auto found = TRY(parts.store.audit(scope, wanted - 1, 1));
    if (!found.empty() && store::numberFor(scope, found[0]) == wanted) return std::move(found[0]);
  }
  return fail(Code::kNotFound, "there is no audit entry " + model::shownText(text) +
                                   "; give the seq of GET /v1/audit, or as an administrator the "
                                   "position");
}

Task<Result<Response>> prove(RestParts& parts, Request& request) {
  audit::RootKeeper* const keeper = CO_TRY(keeperOf(parts));
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor, kLeastTime);
  model::AuditEntry entry = CO_TRY(entryNumbered(parts, request));
  const std::string line = audit::exportLine(entry, store::Scope::of(request.principal));
  using Proved = Result<model::InclusionProof>;
  const auto proof = co_await async::callback<Proved>(
      [&](std::function<void(Proved)> done) { keeper->prove(std::move(entry), std::move(done)); });
  co_await timer.async_wait(boost::asio::use_awaitable);
  if (!proof) co_return std::unexpected(proof.error());
  co_return jsonResponse(200, CO_TRY(model::toJsonObject(*proof, line)));
}

}  // namespace

std::vector<Route> auditProofRoutes(RestParts& parts) {
  return {{.method = "GET",
           .pattern = "/v1/audit/roots",
           .access = needs(Permission::kAuditRead),
           .query = {"after", "limit"},
           .handle = [&parts](Request& request) { return listRoots(parts, request); }},
          {.method = "GET",
           .pattern = "/v1/audit/entries/{id}/proof",
           .access = needs(Permission::kAuditRead),
           .query = {},
           .handle = [&parts](Request& request) { return prove(parts, request); }}};
}

}  // namespace cloister::api
