// SPDX-License-Identifier: Apache-2.0
#include "api/rest/requests.h"

#include "base/clock.h"
#include "base/crypto.h"

namespace cloister::api {
namespace {

constexpr size_t kMaxIdempotencyKey = 255;

}  // namespace

Result<> checkIdempotencyKey(std::string_view key, const std::string& field) {
  const bool printable = std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; });
  if (!key.empty() && key.size() <= kMaxIdempotencyKey && printable) return {};
  const std::string name = field.substr(field.rfind('.') + 1);  // npos + 1 is 0
  return fail(Code::kInvalid, name + ": must be 1 to 255 printable ASCII characters without spaces",
              field);
}

Result<std::string> idempotencyKey(const Request& request) {
  if (request.count("idempotency-key") == 0) return "";
  const std::string_view key = request.header("idempotency-key");
  TRY(checkIdempotencyKey(key, "header.Idempotency-Key"));
  return std::string(key);
}

Result<base::json::object> parseObject(std::string_view body, const model::RequestBounds& bounds) {
  base::json::value value = TRY(base::parseJson(body, {.max_bytes = bounds.body_bytes}));
  if (!value.is_object()) return fail(Code::kInvalid, "request body: must be a JSON object");
  return std::move(value.get_object());
}

int64_t linkEnd(const auth::Credential& credential, int64_t seconds) {
  const int64_t wanted = base::wallMicros() / kMicrosPerSecond + seconds;
  return credential.ends_at == 0 ? wanted : std::min(wanted, credential.ends_at / kMicrosPerSecond);
}

void answerForLink(Request& request, const std::string& made_with, int64_t expires_at) {
  request.credential = {.id = made_with, .ends_at = expires_at * kMicrosPerSecond};
  request.answer_for_credential();
}

Result<uint64_t> ListCursor::read(const std::string& cursor) const {
  return cursors.open(tenant, list, cursor);
}

Result<base::json::value> ListCursor::before(uint64_t seq) const {
  return base::json::value(TRY(cursors.seal(tenant, list, seq)));
}

ListCursor cursorOf(const RestParts& parts, const model::Principal& reader, std::string list) {
  return {.cursors = parts.cursors, .tenant = reader.tenant, .list = std::move(list)};
}

Response noContent() {
  Response response;
  response.status = 204;
  return response;
}

Response executionResponse(int status, const model::Execution& execution) {
  return jsonResponse(status, model::toJsonObject(execution))
      .with("Location", "/v1/executions/" + execution.id);
}

Task<Result<Response>> answerRun(RestParts& parts, Request& request, model::Execution execution,
                                 std::optional<int64_t> wait) {
  if (!wait) co_return executionResponse(201, execution);
  request.watch_peer();
  auto waited = co_await parts.service.wait(request.principal, execution.id,
                                            Millis(std::chrono::seconds(*wait)));
  execution = CO_TRY(std::move(waited));
  co_return executionResponse(model::isTerminal(execution.status) ? 200 : 202, execution);
}

}  // namespace cloister::api
