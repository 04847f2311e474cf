// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/control.h"

#include <algorithm>
#include <utility>

#include "api/http/problem.h"
#include "api/rest/requests.h"
#include "base/clock.h"

namespace cloister::api::compat::e2b {
namespace {

namespace json = base::json;

constexpr uint32_t kPage = 100;             // of a list, unless the client asks for less
constexpr Millis kDefaultTimeout{300'000};  // of a resumed sandbox
constexpr int64_t kMostForks = 16;          // of a request

Response empty() {
  Response response;
  response.status = 204;
  return response;
}

// A session of the path that has not ended: an ended sandbox is as unknown as any other id.
Result<model::Session> sessionOf(RestParts& parts, const Request& request) {
  const std::string& id = request.params[0];
  const auto unknown = [&] {
    return fail(Code::kNotFound, "sandbox \"" + id + "\" doesn't exist or you don't have access");
  };
  auto session = parts.sessions.get(request.principal, id);
  if (!session && session.error().code == Code::kNotFound) return unknown();
  if (session && session->status == model::SessionStatus::kEnded) return unknown();
  return session;
}

Task<Result<Response>> create(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const json::object body = CO_TRY(bodyOf(parts, request));
  const model::Session session = CO_TRY(co_await createSandbox(desk, request, body));
  co_return jsonResponse(201, CO_TRY(sandboxObject(parts, request, session)));
}

Task<Result<Response>> show(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session session = CO_TRY(sessionOf(parts, request));
  const auto end_at = desk.auto_pause.endAt(session.id);
  co_return jsonResponse(200, CO_TRY(detailObject(parts, request, session, end_at)));
}

Task<Result<Response>> kill(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session session = CO_TRY(sessionOf(parts, request));
  CO_TRY(co_await parts.sessions.end(request.principal, session.id));
  co_return empty();
}

// --- lists

struct Filter {
  std::vector<std::pair<std::string, std::string>> metadata;
  bool running = true;
  bool paused = true;
  std::string template_id;
  int64_t started_after = 0;  // wall-clock microseconds
};

// "user=ann&app=prod", each key and value encoded once more.
Result<std::vector<std::pair<std::string, std::string>>> readMetadata(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (auto& [name, value] : TRY(parseRepeatedQuery("/?" + std::string(text)))) {
    pairs.emplace_back(TRY(percentDecode(name, false)), TRY(percentDecode(value, false)));
  }
  return pairs;
}

Result<Filter> readFilter(const Request& request) {
  Filter filter;
  if (const auto text = queryText(request, "metadata")) {
    filter.metadata = TRY(readMetadata(*text));
  }
  bool named = false;
  for (const auto& [name, value] : request.query) {
    if (name != "state") continue;
    if (!named) filter.running = filter.paused = false;
    named = true;
    filter.running = filter.running || ("," + value + ",").contains(",running,");
    filter.paused = filter.paused || ("," + value + ",").contains(",paused,");
  }
  filter.template_id = queryText(request, "template").value_or("");
  if (const auto after = queryText(request, "startedAfter")) {
    const auto time = base::parseTime(*after);
    if (!time) {
      return fail(Code::kInvalid, "query parameter startedAfter: must be a time of RFC 3339",
                  "query.startedAfter");
    }
    filter.started_after = *time;
  }
  return filter;
}

bool fits(const Filter& filter, const model::Session& session, const json::object& shown) {
  if (session.created_at < filter.started_after) return false;
  const bool paused = shown.at("state") == json::string("paused");
  if (paused ? !filter.paused : !filter.running) return false;
  if (!filter.template_id.empty() && shown.at("templateID") != json::string(filter.template_id))
    return false;
  return std::ranges::all_of(filter.metadata, [&](const auto& wanted) {
    const json::value* value = session.metadata.if_contains(wanted.first);
    return value != nullptr && value->is_string() && value->get_string() == wanted.second;
  });
}

// All sandboxes of the requester that fit, newest first. Their number is bounded by session.max.
Result<std::vector<std::pair<uint64_t, json::object>>> fitting(Desk& desk, const Request& request,
                                                               const Filter& filter) {
  std::vector<std::pair<uint64_t, json::object>> all;
  for (const auto status : {model::SessionStatus::kRunning, model::SessionStatus::kPaused}) {
    store::SessionQuery query;
    query.status = status;
    query.limit = kPage;
    while (true) {
      const auto some = TRY(desk.parts.sessions.list(request.principal, query));
      for (const model::Session& session : some) {
        json::object shown = listedObject(desk.parts, session, desk.auto_pause.endAt(session.id));
        if (fits(filter, session, shown)) all.emplace_back(session.seq, std::move(shown));
      }
      if (some.size() < query.limit) break;
      query.before_seq = some.back().seq;
    }
  }
  std::ranges::sort(all, std::ranges::greater(), &std::pair<uint64_t, json::object>::first);
  return all;
}

Task<Result<Response>> list(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const Filter filter = CO_TRY(readFilter(request));
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kPage)).value_or(kPage);
  auto all = CO_TRY(fitting(desk, request, filter));
  const bool oldest_first = queryText(request, "order") == "asc";
  if (oldest_first) std::ranges::reverse(all);
  const ListCursor cursors = cursorOf(parts, request.principal, "e2b.sandboxes");
  uint64_t after = 0;
  if (const auto token = queryText(request, "nextToken")) after = CO_TRY(cursors.read(*token));
  const auto begin = std::ranges::find_if(all, [&](const auto& item) {
    return after == 0 || (oldest_first ? item.first > after : item.first < after);
  });
  json::array items;
  auto at = begin;
  for (; at != all.end() && items.size() < static_cast<size_t>(limit); ++at)
    items.push_back(at->second);
  Response response = jsonResponse(200, items);
  if (at != all.end() && at != begin) {
    const json::value next = CO_TRY(cursors.before(std::prev(at)->first));
    response.with("X-Next-Token", std::string(next.get_string()));
  }
  response.with("X-Total-Running", std::to_string(all.size()));
  co_return response;
}

// --- time

// The sandbox's time ends in `time`, by its end or by a pause.
Task<Result<model::Session>> setTime(Desk& desk, const Request& request,
                                     const model::Session& session, Millis time) {
  const bool pauses = memberOf(session, kTimeoutMember) == kPauses;
  const Millis ttl = pauses ? desk.parts.session_bounds.max_ttl : time;
  const auto renewed =
      CO_TRY(co_await desk.parts.sessions.renew(request.principal, session.id, {ttl, ttl}));
  if (pauses) co_await desk.auto_pause.begin(desk.parts, request.principal, session.id, time);
  co_return renewed;
}

Task<Result<Response>> setTimeout(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session session = CO_TRY(sessionOf(parts, request));
  const json::object body = CO_TRY(bodyOf(parts, request));
  const auto time = CO_TRY(readSeconds(parts, body, "timeout"));
  if (!time) co_return fail(Code::kInvalid, "timeout: required", "timeout");
  if (*time == Millis(0)) {
    CO_TRY(co_await parts.sessions.end(request.principal, session.id));
    co_return empty();
  }
  CO_TRY(co_await setTime(desk, request, session, *time));
  co_return empty();
}

// Lengthens the time to `time` from now; a longer time stays.
Task<Result<model::Session>> lengthen(Desk& desk, const Request& request, model::Session session,
                                      std::optional<Millis> time) {
  const int64_t end = desk.auto_pause.endAt(session.id).value_or(session.expires_at);
  if (!time || base::wallMicros() + time->count() * 1000 <= end) co_return session;
  co_return co_await setTime(desk, request, session, *time);
}

// 201: the sandbox was paused. Its time begins again.
Task<Result<Response>> resume(Desk& desk, Request& request, const model::Session& session,
                              std::optional<Millis> time) {
  CO_TRY(co_await desk.parts.sessions.resume(request.principal, session.id));
  const Millis again = time.value_or(kDefaultTimeout);
  const model::Session resumed = CO_TRY(co_await setTime(desk, request, session, again));
  co_return jsonResponse(201, CO_TRY(sandboxObject(desk.parts, request, resumed)));
}

Task<Result<Response>> connect(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session found = CO_TRY(sessionOf(parts, request));
  const json::object body = CO_TRY(bodyOf(parts, request));
  const auto time = CO_TRY(readSeconds(parts, body, "timeout"));
  if (parts.sessions.pausedSince(found.id) != 0) {
    co_return co_await resume(desk, request, found, time);
  }
  const model::Session session = CO_TRY(co_await lengthen(desk, request, found, time));
  co_return jsonResponse(200, CO_TRY(sandboxObject(parts, request, session)));
}

Task<Result<Response>> refresh(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session found = CO_TRY(sessionOf(parts, request));
  const json::object body = CO_TRY(bodyOf(parts, request));
  const auto time = CO_TRY(readSeconds(parts, body, "duration"));
  CO_TRY(co_await lengthen(desk, request, found, time));
  co_return empty();
}

// A paused sandbox keeps its programs and its memory, and lives as long as sessions may.
Task<Result<Response>> pause(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session session = CO_TRY(sessionOf(parts, request));
  const json::object body = CO_TRY(bodyOf(parts, request));
  base::ObjectReader reader(body, "");
  if (!CO_TRY(reader.boolean("memory")).value_or(true)) {
    co_return fail(Code::kUnsupported,
                   "memory: a pause of this service keeps the memory; leave it out", "memory");
  }
  if (parts.sessions.pausedSince(session.id) != 0) {
    co_return fail(Code::kConflict, "sandbox " + session.id + " is already paused");
  }
  const Millis ttl = parts.session_bounds.max_ttl;
  CO_TRY(co_await parts.sessions.renew(request.principal, session.id, {ttl, ttl}));
  auto paused = co_await parts.sessions.pause(request.principal, session.id);
  if (!paused && paused.error().code == Code::kConflict) {
    // Clients take 409 for "already paused".
    co_return fail(Code::kUnsupported, paused.error().message);
  }
  CO_TRY(std::move(paused));
  desk.auto_pause.end(session.id);
  co_return empty();
}

// --- network

Task<Result<Response>> setNetwork(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session session = CO_TRY(sessionOf(parts, request));
  const json::object body = CO_TRY(bodyOf(parts, request));
  auto network = CO_TRY(co_await networkFor(parts, request.principal, body));
  // A sandbox that was made without a network stays without one.
  if (session.network.tier == "none") network = {};
  CO_TRY(co_await parts.sessions.amend(request.principal, session.id,
                                       {.metadata = std::nullopt, .network = std::move(network)}));
  co_return empty();
}

// --- use

json::object metricOf(const model::Session& session) {
  constexpr uint32_t kCore = 1000;
  constexpr double kPercent = 100;
  const int64_t now = base::wallMicros();
  const double share = static_cast<double>(session.usage.cpu_millis) / session.limits.cpu_millis;
  return {{"timestamp", base::formatTime(now)},
          {"timestampUnix", now / kMicrosPerSecond},
          {"cpuCount", (session.limits.cpu_millis + kCore - 1) / kCore},
          {"cpuUsedPct", share * kPercent},
          {"memUsed", session.usage.memory_bytes},
          {"memTotal", session.limits.memory_bytes},
          {"memCache", 0},
          {"diskUsed", 0},
          {"diskTotal", session.limits.disk_bytes}};
}

// The present use: there is no history.
Task<Result<Response>> metrics(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session session = CO_TRY(sessionOf(parts, request));
  const auto start = CO_TRY(queryInteger(request, "start", 0, INT64_MAX));
  const auto end = CO_TRY(queryInteger(request, "end", 0, INT64_MAX));
  const int64_t now = base::wallMicros() / kMicrosPerSecond;
  json::array items;
  if (start.value_or(0) <= now && end.value_or(now + 1) >= now) items.push_back(metricOf(session));
  co_return jsonResponse(200, items);
}

// --- snapshots

json::object snapshotObject(const model::Snapshot& snapshot) {
  json::array names;
  if (!snapshot.name.empty()) names.emplace_back(snapshot.name);
  return {{"snapshotID", snapshot.id}, {"names", std::move(names)}};
}

Task<Result<Response>> takeSnapshot(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session session = CO_TRY(sessionOf(parts, request));
  const json::object body = CO_TRY(bodyOf(parts, request));
  base::ObjectReader reader(body, "");
  model::SnapshotRequest wanted;
  wanted.name = CO_TRY(reader.text("name")).value_or("");
  const model::Snapshot snapshot =
      CO_TRY(co_await parts.snapshots.take(request.principal, session.id, std::move(wanted)));
  co_return jsonResponse(201, snapshotObject(snapshot));
}

Task<Result<Response>> listSnapshots(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const auto limit = CO_TRY(queryInteger(request, "limit", 1, kPage)).value_or(kPage);
  const std::string of = queryText(request, "sandboxID").value_or("");
  const std::string name = queryText(request, "name").value_or("");
  store::ArtifactQuery query;
  query.limit = kPage;
  if (const auto token = queryText(request, "nextToken")) {
    const auto id = base::fromBase64(*token);
    if (!id) co_return fail(Code::kInvalid, "query parameter nextToken: not one of a list");
    query.before_id = *id;
  }
  json::array items;
  std::string next;
  for (bool more = true; more && next.empty();) {
    const auto some = CO_TRY(parts.snapshots.list(request.principal, query));
    more = some.size() == query.limit;
    for (const model::Snapshot& snapshot : some) {
      query.before_id = snapshot.id;
      if ((!of.empty() && snapshot.session_id != of) || (!name.empty() && snapshot.name != name)) {
        continue;
      }
      items.push_back(snapshotObject(snapshot));
      if (items.size() < static_cast<size_t>(limit)) continue;
      const bool last = !more && &snapshot == &some.back();
      if (!last) next = base::toBase64(snapshot.id);
      more = false;
      break;
    }
  }
  Response response = jsonResponse(200, items);
  if (!next.empty()) response.with("X-Next-Token", next);
  co_return response;
}

Task<Result<Response>> removeSnapshot(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  CO_TRY(co_await parts.snapshots.remove(request.principal, request.params[0]));
  co_return empty();
}

json::object errorObject(const Error& error) {
  return {{"code", statusOf(error)}, {"message", error.message}};
}

// Each fork begins with the files of the sandbox, and with fresh programs.
Task<Result<Response>> fork(Desk& desk, Request& request) {
  RestParts& parts = desk.parts;
  const model::Session session = CO_TRY(sessionOf(parts, request));
  const json::object asked = CO_TRY(bodyOf(parts, request));
  base::ObjectReader reader(asked, "");
  const int64_t count = CO_TRY(reader.integer("count", 1, kMostForks)).value_or(1);
  const model::Snapshot snapshot =
      CO_TRY(co_await parts.snapshots.take(request.principal, session.id, {}));
  json::object body{{"templateID", snapshot.id},
                    {"metadata", listedObject(parts, session, std::nullopt)["metadata"]}};
  json::object env;
  for (const auto& [name, value] : session.env)
    env[name] = value;
  body["envVars"] = std::move(env);
  body["allow_internet_access"] = session.network.tier != "none";
  if (const json::value* timeout = asked.if_contains("timeout")) body["timeout"] = *timeout;
  json::array results;
  for (int64_t i = 0; i < count; ++i) {
    auto made = co_await createSandbox(desk, request, body);
    auto shown = made ? sandboxObject(parts, request, *made)
                      : Result<json::object>(std::unexpected(made.error()));
    results.push_back(shown ? json::object{{"sandbox", *std::move(shown)}}
                            : json::object{{"error", errorObject(shown.error())}});
  }
  CO_TRY(co_await parts.snapshots.remove(request.principal, snapshot.id));
  co_return jsonResponse(201, results);
}

Task<Result<Response>> absent(Request& request) {
  co_return problem(501, request.method + " " + std::string(request.route) +
                             ": this service does not offer it; docs/howto/e2b.md lists the calls");
}

}  // namespace

std::vector<Route> controlRoutes(Desk& desk) {
  const auto with = [&desk](auto handler) {
    return [&desk, handler](Request& request) { return handler(desk, request); };
  };
  const auto route = [&](std::string_view method, std::string_view pattern, Permission permission,
                         auto handler) {
    return Route{.method = method,
                 .pattern = pattern,
                 .access = needs(permission),
                 .query = {},
                 .handle = with(handler),
                 .json_body = method != "GET" && method != "DELETE"};
  };
  return {
      route("POST", "/e2b/v2/sandboxes", Permission::kSessionUse, create),
      route("POST", "/e2b/sandboxes", Permission::kSessionUse, create),
      route("GET", "/e2b/v2/sandboxes", Permission::kSessionRead, list),
      route("GET", "/e2b/sandboxes", Permission::kSessionRead, list),
      route("GET", "/e2b/sandboxes/{id}", Permission::kSessionRead, show),
      route("DELETE", "/e2b/sandboxes/{id}", Permission::kSessionEnd, kill),
      route("POST", "/e2b/sandboxes/{id}/timeout", Permission::kSessionUse, setTimeout),
      route("POST", "/e2b/sandboxes/{id}/refreshes", Permission::kSessionUse, refresh),
      route("POST", "/e2b/v2/sandboxes/{id}/connect", Permission::kSessionUse, connect),
      route("POST", "/e2b/sandboxes/{id}/connect", Permission::kSessionUse, connect),
      route("POST", "/e2b/sandboxes/{id}/resume", Permission::kSessionUse, connect),
      route("POST", "/e2b/sandboxes/{id}/pause", Permission::kSessionUse, pause),
      route("PUT", "/e2b/sandboxes/{id}/network", Permission::kSessionUse, setNetwork),
      route("GET", "/e2b/sandboxes/{id}/metrics", Permission::kSessionRead, metrics),
      route("POST", "/e2b/sandboxes/{id}/snapshots", Permission::kSessionUse, takeSnapshot),
      route("POST", "/e2b/sandboxes/{id}/fork", Permission::kSessionUse, fork),
      route("GET", "/e2b/snapshots", Permission::kArtifactRead, listSnapshots),
      route("DELETE", "/e2b/templates/{id}", Permission::kArtifactDelete, removeSnapshot),
  };
}

std::vector<Route> absentRoutes() {
  std::vector<Route> routes;
  for (const std::string_view pattern :
       {"/e2b/sandboxes/{id}/logs", "/e2b/v2/sandboxes/{id}/logs", "/e2b/templates",
        "/e2b/templates/{path}", "/e2b/v2/templates", "/e2b/v2/templates/{path}",
        "/e2b/v3/templates", "/e2b/volumes", "/e2b/volumes/{path}", "/e2b/volumecontent/{path}",
        "/e2b/secrets", "/e2b/secrets/{path}", "/e2b/teams", "/e2b/teams/{path}"}) {
    routes.push_back({.method = "*",
                      .pattern = pattern,
                      .access = needs(Permission::kSessionRead),
                      .query = {},
                      .handle = absent,
                      .passes_on = true});
  }
  return routes;
}

}  // namespace cloister::api::compat::e2b
