// SPDX-License-Identifier: Apache-2.0
// /v1/sessions: sandboxes with a longer life. Their programs are executions, shown like all others.
#include <algorithm>
#include <memory>
#include <utility>

#include "api/feeds/session_feed.h"
#include "api/rest/requests.h"

namespace cloister::api {
namespace {

namespace json = base::json;

constexpr std::string_view kRetry = "retry: 1000\n\n";

Response sessionResponse(int status, const model::Principal& who, const model::Session& session) {
  return jsonResponse(status, model::shownTo(who, session))
      .with("Location", "/v1/sessions/" + session.id);
}

Task<Result<Response>> create(RestParts& parts, Request& request) {
  std::string key = CO_TRY(idempotencyKey(request));
  auto read =
      co_await readBody<model::SessionRequest>(parts, request, [&parts](const json::object& body) {
        return model::parseSessionRequest(body, parts.bounds, parts.session_bounds);
      });
  model::SessionRequest wanted = CO_TRY(std::move(read));
  auto made = co_await [&] {
    return wanted.from_snapshot.empty()
               ? parts.sessions.create(request.principal, std::move(wanted), std::move(key))
               : parts.snapshots.restore(request.principal, std::move(wanted), std::move(key));
  }();
  const model::Session session = CO_TRY(std::move(made));
  const bool waits = session.status == model::SessionStatus::kBlocked;
  co_return sessionResponse(waits ? 202 : 201, request.principal, session);
}

Task<Result<Response>> show(RestParts& parts, Request& request) {
  const model::Session session = CO_TRY(parts.sessions.get(request.principal, request.params[0]));
  co_return jsonResponse(200, model::shownTo(request.principal, session));
}

Result<store::SessionQuery> parseListQuery(const Request& request, const ListCursor& cursors) {
  store::SessionQuery query;
  TRY(readPage(request, cursors, query));
  if (const auto status = queryText(request, "status")) {
    query.status = model::sessionStatusFromName(*status);
    if (!query.status) {
      return fail(Code::kInvalid, "query parameter status: not a session's status", "query.status");
    }
  }
  return query;
}

Task<Result<Response>> list(RestParts& parts, Request& request) {
  const ListCursor cursors = cursorOf(parts, request.principal, "sessions");
  const store::SessionQuery query = CO_TRY(parseListQuery(request, cursors));
  Page page = CO_TRY(readPages(
      query, [&](const auto& some) { return parts.sessions.list(request.principal, some); },
      [&](const model::Session& session) { return model::shownTo(request.principal, session); },
      cursors));
  co_return jsonResponse(200, json::object{{"sessions", std::move(page.items)},
                                           {"next_cursor", std::move(page.next)}});
}

Task<Result<Response>> end(RestParts& parts, Request& request) {
  auto ended = co_await parts.sessions.end(request.principal, request.params[0]);
  co_return sessionResponse(200, request.principal, CO_TRY(std::move(ended)));
}

Task<Result<Response>> renew(RestParts& parts, Request& request) {
  const json::object body =
      request.has_body ? CO_TRY(parseObject(request.body, parts.bounds)) : json::object();
  const model::Session session = CO_TRY(parts.sessions.get(request.principal, request.params[0]));
  const model::Renewal renewal = CO_TRY(model::parseRenewal(body, parts.session_bounds));
  auto renewed = co_await parts.sessions.renew(request.principal, session.id, renewal);
  co_return sessionResponse(200, request.principal, CO_TRY(std::move(renewed)));
}

Task<Result<Response>> move(RestParts& parts, Request& request) {
  const json::object body =
      request.has_body ? CO_TRY(parseObject(request.body, parts.bounds)) : json::object();
  const model::SessionMove to = CO_TRY(model::parseSessionMove(body));
  auto moved = co_await parts.sessions.move(request.principal, request.params[0], to);
  co_return sessionResponse(200, request.principal, CO_TRY(std::move(moved)));
}

Task<Result<Response>> exec(RestParts& parts, Request& request) {
  const std::optional<int64_t> wait = CO_TRY(queryInteger(request, "wait", 0, kMaxWaitSeconds));
  std::string key = CO_TRY(idempotencyKey(request));
  const model::Session session = CO_TRY(parts.sessions.get(request.principal, request.params[0]));
  auto read = co_await readBody<model::ExecRequest>(
      parts, request, [&parts, session](const json::object& body) {
        return model::parseExecRequest(body, parts.bounds, session);
      });
  model::ExecRequest wanted = CO_TRY(std::move(read));
  const bool background = wanted.background;
  if (background && wait) {
    co_return fail(Code::kInvalid, "query parameter wait: not together with background",
                   "query.wait");
  }
  auto started = co_await parts.sessions.exec(request.principal, session.id, std::move(wanted),
                                              std::move(key));
  const model::Execution execution = CO_TRY(std::move(started));
  if (background) co_return executionResponse(202, execution);
  co_return co_await answerRun(parts, request, execution, wait);
}

Task<void> sendEvents(SessionFeed feed, BodyWriter& out) {
  if (!co_await out.write(kRetry)) co_return;
  while (const std::optional<Event> event = co_await feed.next()) {
    if (!co_await out.write(toServerSentEvent(*event))) co_return;
  }
}

Result<SessionPosition> resumeFrom(const Request& request) {
  if (request.count("last-event-id") > 0) {
    return SessionPosition::parse(request.header("last-event-id"));
  }
  if (const auto id = queryText(request, "last_event_id")) return SessionPosition::parse(*id);
  return SessionPosition{};
}

Task<Result<Response>> events(RestParts& parts, Request& request) {
  const SessionPosition from = CO_TRY(resumeFrom(request));
  auto log = CO_TRY(parts.sessions.log(request.principal, request.params[0]));
  Response response;
  if (from.ended) {
    response.status = 204;  // tells an EventSource not to come back
    co_return response;
  }
  const SessionFeed feed(std::move(log), from, parts.heartbeat, request.principal);
  response.with("Content-Type", "text/event-stream").with("X-Accel-Buffering", "no");
  response.stream = [feed](BodyWriter& out) { return sendEvents(feed, out); };
  co_return response;
}

}  // namespace

std::vector<Route> sessionRoutes(RestParts& parts) {
  const auto with = [&parts](auto handler) {
    return [&parts, handler](Request& request) { return handler(parts, request); };
  };
  return {
      {.method = "POST",
       .pattern = "/v1/sessions",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(create),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/sessions",
       .access = needs(Permission::kSessionRead),
       .query = {"status", "agent", "limit", "cursor"},
       .handle = with(list)},
      {.method = "GET",
       .pattern = "/v1/sessions/{id}",
       .access = needs(Permission::kSessionRead),
       .query = {},
       .handle = with(show)},
      {.method = "DELETE",
       .pattern = "/v1/sessions/{id}",
       .access = needs(Permission::kSessionEnd),
       .query = {},
       .handle = with(end)},
      {.method = "POST",
       .pattern = "/v1/sessions/{id}/renew",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(renew),
       .json_body = true},
      {.method = "POST",
       .pattern = "/v1/sessions/{id}:move",
       .access = needs(Permission::kSessionUse),
       .query = {},
       .handle = with(move),
       .json_body = true},
      {.method = "POST",
       .pattern = "/v1/sessions/{id}/exec",
       .access = needs(Permission::kSessionUse),
       .query = {"wait"},
       .handle = with(exec),
       .json_body = true},
      {.method = "GET",
       .pattern = "/v1/sessions/{id}/events",
       .access = needs(Permission::kSessionRead),
       .query = {"last_event_id"},
       .handle = with(events)},
  };
}

}  // namespace cloister::api
