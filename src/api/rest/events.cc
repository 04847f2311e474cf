// SPDX-License-Identifier: Apache-2.0
// /v1/executions/{id}/events: a feed, as Server-Sent Events or over a WebSocket, which also takes
// input, signals and the terminal's size.
#include "api/feeds/event_feed.h"
#include "api/rest/requests.h"

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

// Following a run takes fewer permissions than writing to its input. A message may come just before
// the look at credentials that ends its connection.
Result<> mayWrite(RestParts& parts, const model::Principal& principal) {
  const Permission needed = Permission::kExecutionRun;
  if (!principal.may(needed)) {
    return fail(Code::kDenied,
                "this needs the permission " + std::string(model::permissionName(needed)));
  }
  return store::stillHolds(parts.store, principal);
}

// Handles a message: the bodies of …/input, :signal and :resize, with a `type`. A message after the
// program's end is not the client's error.
Task<Result<>> takeMessage(RestParts& parts, model::Principal principal, std::string id,
                           std::string text) {
  CO_TRY(mayWrite(parts, principal));
  base::json::object body = CO_TRY(parseObject(text, parts.bounds));
  const base::json::value* type = body.if_contains("type");
  const base::json::string* name = type == nullptr ? nullptr : type->if_string();
  const std::string kind = name == nullptr ? "" : std::string(*name);
  body.erase("type");
  if (kind == "input") {
    model::ProgramInput input = CO_TRY(model::parseProgramInput(body, parts.bounds));
    co_return co_await parts.service.input(std::move(principal), std::move(id), std::move(input));
  }
  if (kind == "signal") {
    const int number = CO_TRY(model::parseSignal(body));
    co_return co_await parts.service.signal(std::move(principal), std::move(id), number);
  }
  if (kind == "resize") {
    const model::TerminalSize size = CO_TRY(model::parseTerminalSize(body));
    co_return co_await parts.service.resize(std::move(principal), std::move(id), size);
  }
  co_return fail(Code::kInvalid, "type: must be input, signal or resize", "type");
}

Task<Result<Response>> events(RestParts& parts, Request& request) {
  const Position from = CO_TRY(resumeFrom(request));
  auto log = CO_TRY(parts.service.log(request.principal, request.params[0]));
  const EventFeed feed(std::move(log), from, parts.heartbeat);
  Response response;
  if (wantsWebSocket(request)) {
    response.websocket = [feed](WebSocket& out) { return sendMessages(feed, out); };
    response.websocket_input = [&parts, principal = request.principal,
                                id = request.params[0]](std::string text) {
      return takeMessage(parts, principal, id, std::move(text));
    };
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
