// SPDX-License-Identifier: Apache-2.0
// /v1/executions: run, look, list, cancel, read the kept output.
#include <algorithm>
#include <charconv>
#include <memory>
#include <utility>

#include "api/event_feed.h"
#include "api/rest/awaiting.h"
#include "api/rest/rest.h"
#include "base/crypto.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr int64_t kMaxWaitSeconds = 300;
constexpr size_t kMaxIdempotencyKey = 255;
constexpr int64_t kMaxList = 500;
constexpr size_t kLargeBody = size_t{256} << 10;
constexpr size_t kLogPiece = size_t{64} << 10;
constexpr std::string_view kCursorPrefix = "before:";

Result<std::string> idempotencyKey(const Request& request) {
  if (request.count("idempotency-key") == 0) return "";
  const std::string_view key = request.header("idempotency-key");
  const bool printable = std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; });
  if (key.empty() || key.size() > kMaxIdempotencyKey || !printable) {
    return fail(Code::kInvalid,
                "Idempotency-Key: must be 1 to 255 printable ASCII characters without spaces",
                "header.Idempotency-Key");
  }
  return std::string(key);
}

Result<model::RunRequest> parseBody(std::string_view body, const model::RequestBounds& bounds) {
  const json::value value = TRY(base::parseJson(body, {.max_bytes = bounds.body_bytes}));
  if (!value.is_object()) return fail(Code::kInvalid, "request body: must be a JSON object");
  return model::parseRunRequest(value.get_object(), bounds);
}

// A large body takes long enough to read that others would notice on the io thread.
Task<Result<model::RunRequest>> readRequest(RestParts& parts, std::string body) {
  if (body.size() < kLargeBody) co_return parseBody(body, parts.bounds);
  const auto shared = std::make_shared<const std::string>(std::move(body));
  co_return co_await inBackground<Result<model::RunRequest>>(
      parts.background, [shared, &parts] { return parseBody(*shared, parts.bounds); });
}

Response executionResponse(int status, const model::Execution& execution) {
  return jsonResponse(status, model::toJsonObject(execution))
      .with("Location", "/v1/executions/" + execution.id);
}

Task<Result<Response>> create(RestParts& parts, Request& request) {
  const std::optional<int64_t> wait = CO_TRY(queryInteger(request, "wait", 0, kMaxWaitSeconds));
  const bool dry_run = CO_TRY(queryFlag(request, "dry_run"));
  std::string key = CO_TRY(idempotencyKey(request));
  auto read = co_await readRequest(parts, std::exchange(request.body, {}));
  model::RunRequest run = CO_TRY(std::move(read));
  if (dry_run) {
    auto plan = co_await parts.service.plan(request.principal, std::move(run));
    co_return jsonResponse(200, CO_TRY(std::move(plan)));
  }
  auto accepted = co_await parts.service.run(request.principal, std::move(run), std::move(key));
  model::Execution execution = CO_TRY(std::move(accepted));
  if (!wait) co_return executionResponse(201, execution);
  request.watch_peer();
  auto waited = co_await parts.service.wait(request.principal, execution.id,
                                            Millis(std::chrono::seconds(*wait)));
  execution = CO_TRY(std::move(waited));
  co_return executionResponse(model::isTerminal(execution.status) ? 200 : 202, execution);
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  const model::Execution execution =
      CO_TRY(parts.service.get(request.principal, request.params[0]));
  co_return jsonResponse(200, model::toJsonObject(execution));
}

Task<Result<Response>> cancel(RestParts& parts, Request& request) {
  auto cancelled = co_await parts.service.cancel(request.principal, request.params[0]);
  const model::Execution execution = CO_TRY(std::move(cancelled));
  co_return executionResponse(model::isTerminal(execution.status) ? 200 : 202, execution);
}

Result<uint64_t> parseCursor(const std::string& cursor) {
  const std::string text = base::fromBase64(cursor).value_or("");
  uint64_t seq = 0;
  if (text.starts_with(kCursorPrefix)) {
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + kCursorPrefix.size(), end, seq);
    if (parsed.ec == std::errc() && parsed.ptr == end && seq != 0) return seq;
  }
  return fail(Code::kInvalid, "query parameter cursor: not one of this service", "query.cursor");
}

Result<store::ListQuery> parseListQuery(const Request& request) {
  store::ListQuery query;
  query.agent = queryText(request, "agent").value_or("");
  query.session_id = queryText(request, "session_id").value_or("");
  if (const auto status = queryText(request, "status")) {
    query.status = model::statusFromName(*status);
    if (!query.status) {
      return fail(Code::kInvalid, "query parameter status: not a status", "query.status");
    }
  }
  const auto limit = TRY(queryInteger(request, "limit", 1, kMaxList));
  if (limit) query.limit = static_cast<uint32_t>(*limit);
  if (const auto cursor = queryText(request, "cursor")) {
    query.before_seq = TRY(parseCursor(*cursor));
  }
  return query;
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const store::ListQuery query = CO_TRY(parseListQuery(request));
  const std::vector<model::Execution> executions =
      CO_TRY(parts.service.list(request.principal, query));
  json::array items;
  for (const model::Execution& execution : executions)
    items.push_back(summary(execution));
  json::value cursor = nullptr;
  if (executions.size() == query.limit) {
    cursor = base::toBase64(std::string(kCursorPrefix) + std::to_string(executions.back().seq));
  }
  co_return jsonResponse(
      200, json::object{{"executions", std::move(items)}, {"next_cursor", std::move(cursor)}});
}

// Where the last `lines` lines begin.
size_t tailOffset(std::string_view text, int64_t lines) {
  size_t at = text.size();
  if (text.ends_with('\n')) --at;
  while (lines-- > 0) {
    at = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
    if (at == std::string_view::npos) return 0;
  }
  return at + 1;
}

Task<void> streamKept(std::shared_ptr<orchestrator::OutputLog> log, model::Stream stream,
                      uint64_t from, uint64_t to, BodyWriter& out) {
  while (from < to) {
    // A copy: the log may grow, and move, while the client takes its time.
    const std::string piece(
        log->kept(stream, from).substr(0, std::min<uint64_t>(kLogPiece, to - from)));
    if (piece.empty() || !co_await out.write(piece)) co_return;
    from += piece.size();
  }
}

Task<Result<Response>> logs(RestParts& parts, Request& request) {
  const std::string name = queryText(request, "stream").value_or("stdout");
  if (name != "stdout" && name != "stderr") {
    co_return fail(Code::kInvalid, "query parameter stream: must be stdout or stderr",
                   "query.stream");
  }
  const auto offset = CO_TRY(queryInteger(request, "offset", 0, INT64_MAX));
  const auto tail = CO_TRY(queryInteger(request, "tail_lines", 1, 1'000'000));
  if (offset && tail) {
    co_return fail(Code::kInvalid, "query parameter tail_lines: not together with offset",
                   "query.tail_lines");
  }
  const auto log = CO_TRY(parts.service.log(request.principal, request.params[0]));
  const auto stream = name == "stdout" ? model::Stream::kStdout : model::Stream::kStderr;
  const std::string_view kept = log->kept(stream, 0);
  const uint64_t to = kept.size();
  const uint64_t from = tail ? tailOffset(kept, *tail)
                             : std::min<uint64_t>(to, static_cast<uint64_t>(offset.value_or(0)));
  Response response;
  response.with("Content-Type", "text/plain; charset=utf-8")
      .with("X-Cloister-Offset", std::to_string(from))
      .with("X-Cloister-Next-Offset", std::to_string(to))
      .with("X-Cloister-Total-Bytes", std::to_string(log->total(stream)))
      .with("X-Cloister-Complete", log->closed() ? "true" : "false");
  response.stream_length = to - from;
  response.stream = [log, stream, from, to](BodyWriter& out) {
    return streamKept(log, stream, from, to, out);
  };
  co_return response;
}

}  // namespace

std::vector<Route> executionRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "POST",
       .pattern = "/v1/executions",
       .query = {"wait", "dry_run"},
       .handle = with(create),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/executions",
       .query = {"status", "agent", "session_id", "limit", "cursor"},
       .handle = with(list)},
      {.method = "GET", .pattern = "/v1/executions/{id}", .query = {}, .handle = with(show)},
      {.method = "DELETE", .pattern = "/v1/executions/{id}", .query = {}, .handle = with(cancel)},
      {.method = "GET",
       .pattern = "/v1/executions/{id}/logs",
       .query = {"stream", "offset", "tail_lines"},
       .handle = with(logs)},
  };
}

}  // namespace cloister::api
