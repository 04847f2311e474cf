// SPDX-License-Identifier: Apache-2.0
// /v1/executions: run, look, list, cancel, read the kept output; input and signals for programs of
// sessions.
#include <algorithm>
#include <memory>
#include <utility>

#include "api/feeds/event_feed.h"
#include "api/rest/requests.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr size_t kLogPiece = size_t{64} << 10;

Task<Result<Response>> create(RestParts& parts, Request& request) {
  const std::optional<int64_t> wait = CO_TRY(queryInteger(request, "wait", 0, kMaxWaitSeconds));
  const bool dry_run = CO_TRY(queryFlag(request, "dry_run"));
  std::string key = CO_TRY(idempotencyKey(request));
  auto read = co_await readBody<model::RunRequest>(
      parts, request,
      [&parts](const json::object& body) { return model::parseRunRequest(body, parts.bounds); });
  model::RunRequest run = CO_TRY(std::move(read));
  if (dry_run) {
    auto plan = co_await parts.service.plan(request.principal, std::move(run));
    co_return jsonResponse(200, CO_TRY(std::move(plan)));
  }
  auto accepted = co_await parts.service.run(request.principal, std::move(run), std::move(key));
  co_return co_await answerRun(parts, request, CO_TRY(std::move(accepted)), wait);
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  const model::Execution execution =
      CO_TRY(parts.service.get(request.principal, request.params[0]));
  co_return jsonResponse(200, model::toJsonObject(execution));
}

Task<Result<Response>> showRequest(RestParts& parts, Request& request) {
  co_return jsonResponse(200, CO_TRY(parts.service.request(request.principal, request.params[0])));
}

Task<Result<Response>> cancel(RestParts& parts, Request& request) {
  auto cancelled = co_await parts.service.cancel(request.principal, request.params[0]);
  const model::Execution execution = CO_TRY(std::move(cancelled));
  co_return executionResponse(model::isTerminal(execution.status) ? 200 : 202, execution);
}

Task<Result<Response>> input(RestParts& parts, Request& request) {
  auto read = co_await readBody<model::ProgramInput>(
      parts, request,
      [&parts](const json::object& body) { return model::parseProgramInput(body, parts.bounds); });
  model::ProgramInput input = CO_TRY(std::move(read));
  CO_TRY(co_await parts.service.input(request.principal, request.params[0], std::move(input)));
  co_return jsonResponse(200, json::object());
}

Task<Result<Response>> resize(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  const model::TerminalSize size = CO_TRY(model::parseTerminalSize(body));
  CO_TRY(co_await parts.service.resize(request.principal, request.params[0], size));
  co_return jsonResponse(200, json::object());
}

Task<Result<Response>> signal(RestParts& parts, Request& request) {
  const json::object body = CO_TRY(parseObject(request.body, parts.bounds));
  const int number = CO_TRY(model::parseSignal(body));
  CO_TRY(co_await parts.service.signal(request.principal, request.params[0], number));
  co_return jsonResponse(200, json::object());
}

Result<store::ListQuery> parseListQuery(RestParts& parts, const Request& request,
                                        const ListCursor& cursors) {
  store::ListQuery query;
  TRY(readPage(request, cursors, query));
  query.session_id =
      TRY(parts.sessions.idOf(request.principal, queryText(request, "session_id").value_or("")));
  if (const auto status = queryText(request, "status")) {
    query.status = model::statusFromName(*status);
    if (!query.status) {
      return fail(Code::kInvalid, "query parameter status: not a status", "query.status");
    }
  }
  return query;
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const ListCursor cursors = cursorOf(parts, request.principal, "executions");
  const store::ListQuery query = CO_TRY(parseListQuery(parts, request, cursors));
  Page page = CO_TRY(readPages(
      query, [&](const auto& some) { return parts.service.list(request.principal, some); }, summary,
      cursors));
  co_return jsonResponse(200, json::object{{"executions", std::move(page.items)},
                                           {"next_cursor", std::move(page.next)}});
}

// The offset of the last `lines` lines.
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
                      uint64_t from, uint64_t to, std::string first, BodyWriter& out) {
  if (!first.empty() && !co_await out.write(first)) co_return;
  from += first.size();
  while (from < to) {
    if (from < log->begin(stream)) co_return;  // a terminal has said so much meanwhile
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
  const uint64_t begin = log->begin(stream);  // of a terminal the last is kept
  const uint64_t to = begin + kept.size();
  const uint64_t from =
      tail ? begin + tailOffset(kept, *tail)
           : std::clamp<uint64_t>(static_cast<uint64_t>(offset.value_or(0)), begin, to);
  Response response;
  response.with("Content-Type", "text/plain; charset=utf-8")
      .with("X-Cloister-Offset", std::to_string(from))
      .with("X-Cloister-Next-Offset", std::to_string(to))
      .with("X-Cloister-Total-Bytes", std::to_string(log->total(stream)))
      .with("X-Cloister-Complete", log->closed() ? "true" : "false");
  response.stream_length = to - from;
  // Copies a short answer whole now: a terminal may write more, and displace the bytes before they
  // are sent.
  const std::string first(kept.substr(from - begin, kLogPiece));
  response.stream = [log, stream, from, to, first](BodyWriter& out) {
    return streamKept(log, stream, from, to, first, out);
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
       .access = needs(Permission::kExecutionRun),
       .query = {"wait", "dry_run"},
       .handle = with(create),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/executions",
       .access = needs(Permission::kExecutionRead),
       .query = {"status", "agent", "session_id", "limit", "cursor"},
       .handle = with(list)},
      {.method = "GET",
       .pattern = "/v1/executions/{id}",
       .access = needs(Permission::kExecutionRead),
       .query = {},
       .handle = with(show)},
      {.method = "GET",
       .pattern = "/v1/executions/{id}/request",
       .access = needs(Permission::kExecutionRun),
       .query = {},
       .handle = with(showRequest)},
      {.method = "DELETE",
       .pattern = "/v1/executions/{id}",
       .access = needs(Permission::kExecutionStop),
       .query = {},
       .handle = with(cancel)},
      {.method = "POST",
       .pattern = "/v1/executions/{id}/input",
       .access = needs(Permission::kExecutionRun),
       .query = {},
       .handle = with(input),
       .json_body = true},
      {.method = "POST",
       .pattern = "/v1/executions/{id}:signal",
       .access = needs(Permission::kExecutionRun),
       .query = {},
       .handle = with(signal),
       .json_body = true},
      {.method = "POST",
       .pattern = "/v1/executions/{id}:resize",
       .access = needs(Permission::kExecutionRun),
       .query = {},
       .handle = with(resize),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/executions/{id}/logs",
       .access = needs(Permission::kExecutionRead),
       .query = {"stream", "offset", "tail_lines"},
       .handle = with(logs)},
  };
}

}  // namespace cloister::api
