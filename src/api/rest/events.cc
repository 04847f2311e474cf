// SPDX-License-Identifier: Apache-2.0
// /v1/executions/{id}/events: one feed, as Server-Sent Events or over a WebSocket.
#include "api/event_feed.h"
#include "api/rest/rest.h"

namespace cloister::api {
namespace {

constexpr std::string_view kRetry = "retry: 1000\n\n";

Result<Position> resumeFrom(const Request& request) {
  if (request.count("last-event-id") > 0) {
    return Position::parse(request.header("last-event-id"));
  }
  if (const auto id = queryText(request, "last_event_id")) return Position::parse(*id);
  return Position{};
}

bool wantsWebSocket(const Request& request) {
  return lowerCase(request.header("upgrade")) == "websocket";
}

Task<void> sendEvents(EventFeed feed, BodyWriter& out) {
  if (!co_await out.write(kRetry)) co_return;
  while (const std::optional<Event> event = co_await feed.next()) {
    if (!co_await out.write(toServerSentEvent(*event))) co_return;
  }
}

Task<void> sendMessages(EventFeed feed, WebSocket& out) {
  while (std::optional<Event> event = co_await feed.next()) {
    if (!co_await out.send(toWebSocketMessage(std::move(*event)))) co_return;
  }
}

Task<Result<Response>> events(RestParts& parts, Request& request) {
  const Position from = CO_TRY(resumeFrom(request));
  auto log = CO_TRY(parts.service.log(request.principal, request.params[0]));
  const EventFeed feed(std::move(log), from, parts.heartbeat);
  Response response;
  if (wantsWebSocket(request)) {
    response.websocket = [feed](WebSocket& out) { return sendMessages(feed, out); };
    co_return response;
  }
  if (from.ended()) {
    response.status = 204;  // tells an EventSource not to come back
    co_return response;
  }
  response.with("Content-Type", "text/event-stream").with("X-Accel-Buffering", "no");
  response.stream = [feed](BodyWriter& out) { return sendEvents(feed, out); };
  co_return response;
}

}  // namespace

std::vector<Route> eventRoutes(RestParts& parts) {
  return {{.method = "GET",
           .pattern = "/v1/executions/{id}/events",
           .access = needs(Permission::kExecutionRead),
           .query = {"last_event_id"},
           .handle = [&parts](Request& request) { return events(parts, request); }}};
}

}  // namespace cloister::api
