// SPDX-License-Identifier: Apache-2.0
#include "api/compat/e2b/filesystem.h"

#include <algorithm>
#include <utility>

#include "api/compat/e2b/connect.h"
#include "api/compat/e2b/entries.h"
#include "api/compat/e2b/paths.h"
#include "api/rest/requests.h"
#include "base/id.h"

namespace cloister::api::compat::e2b {
namespace {

namespace json = base::json;
namespace files = wire::files;
using files::ChangeKind;
using orchestrator::FileWatch;

constexpr int64_t kEntries = kMaxEntries;
constexpr Millis kKeepAlive{50'000};

Result<json::object> messageOf(const RestParts& parts, const Request& request) {
  return parseObject(TRY(onlyMessage(request)), parts.bounds);
}

Result<Place> readPlace(const json::object& message, std::string_view name) {
  base::ObjectReader reader(message, "");
  return placeOf(TRY(reader.text(name)).value_or(""), std::string(name));
}

PlaceCalls callsOf(RestParts& parts, const Request& request, const model::Session& session) {
  return {parts, request.principal, session.id};
}

// An error of a unary call whose name has no Code.
Response named(int status, std::string_view code, std::string_view message) {
  return jsonResponse(status, json::object{{"code", code}, {"message", message}});
}

Task<Result<Response>> stat(RestParts& parts, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(parts, request));
  const Place place = CO_TRY(readPlace(message, "path"));
  const files::Entry entry = CO_TRY(co_await callsOf(parts, request, session).stat(place));
  co_return jsonResponse(200, json::object{{"entry", entryInfo(entry, place.shown)}});
}

Task<Result<Response>> listDir(RestParts& parts, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(parts, request));
  const Place place = CO_TRY(readPlace(message, "path"));
  base::ObjectReader reader(message, "");
  const int64_t depth = CO_TRY(reader.integer("depth", 0, UINT32_MAX)).value_or(1);
  const PlaceCalls calls = callsOf(parts, request, session);
  const files::Entry root = CO_TRY(co_await calls.stat(place));
  if (root.kind != files::Kind::kDirectory) {
    co_return fail(Code::kInvalid, "path is not a directory: " + place.shown, "path");
  }
  const int64_t levels = std::clamp<int64_t>(depth, 1, files::kMaxDepth);
  const FileCallPtr call = CO_TRY(co_await calls.ask(
      {{"list", place.served, std::to_string(levels), std::to_string(kEntries)}, false, ""}));
  const Listed listed = CO_TRY(co_await collect(call));
  json::array entries;
  for (const files::Entry& entry : listed.entries)
    entries.push_back(entryInfo(entry, place.shown + "/" + shown("", entry.path)));
  co_return jsonResponse(200, json::object{{"entries", std::move(entries)}});
}

Task<Result<Response>> makeDir(RestParts& parts, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(parts, request));
  const Place place = CO_TRY(readPlace(message, "path"));
  const PlaceCalls calls = callsOf(parts, request, session);
  if (const auto there = CO_TRY(co_await calls.look(place))) {
    if (there->kind == files::Kind::kDirectory) {
      co_return named(409, "already_exists", "directory already exists: " + place.shown);
    }
    co_return fail(Code::kInvalid, "path already exists but is not a directory: " + place.shown,
                   "path");
  }
  const files::Entry made = CO_TRY(co_await calls.makeDirectory(place));
  co_return jsonResponse(200, json::object{{"entry", entryInfo(made, place.shown)}});
}

// As rename(2): over a file, and not over a directory.
Task<Result<Response>> move(RestParts& parts, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(parts, request));
  const Place source = CO_TRY(readPlace(message, "source"));
  const Place target = CO_TRY(readPlace(message, "destination"));
  const PlaceCalls calls = callsOf(parts, request, session);
  CO_TRY(co_await calls.stat(source));
  const auto there = CO_TRY(co_await calls.look(target));
  if (there && there->kind == files::Kind::kDirectory) {
    co_return fail(Code::kInvalid, "destination is a directory: " + target.shown, "destination");
  }
  CO_TRY(co_await calls.makeParent(target));
  const FileCallPtr call = CO_TRY(co_await calls.ask(
      {{"move", source.served, target.served, there ? "1" : "0"}, false, "file.moved"}));
  CO_TRY(co_await call->finish());
  const files::Entry moved = CO_TRY(co_await calls.stat(target));
  co_return jsonResponse(200, json::object{{"entry", entryInfo(moved, target.shown)}});
}

// With its contents; nothing there is no error.
Task<Result<Response>> remove(RestParts& parts, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(parts, request));
  const Place place = CO_TRY(readPlace(message, "path"));
  const PlaceCalls calls = callsOf(parts, request, session);
  const FileCallPtr call =
      CO_TRY(co_await calls.ask({{"remove", place.served, "1"}, false, "file.removed"}));
  const auto done = co_await call->finish();
  if (!done && done.error().code != Code::kNotFound) co_return std::unexpected(done.error());
  co_return jsonResponse(200, json::object());
}

// --- watching

struct Watched {
  Place place;
  bool recursive = false;
  bool with_entries = false;
};

Result<Watched> readWatched(const json::object& message) {
  base::ObjectReader reader(message, "");
  Watched watched{.place = TRY(readPlace(message, "path"))};
  watched.recursive = TRY(reader.boolean("recursive")).value_or(false);
  watched.with_entries = TRY(reader.boolean("includeEntry")).value_or(false);
  return watched;
}

Task<Result<std::shared_ptr<FileWatch::Reader>>> watchOf(RestParts& parts, Request& request,
                                                         const model::Session& session,
                                                         const Watched& watched) {
  const PlaceCalls calls = callsOf(parts, request, session);
  const files::Entry entry = CO_TRY(co_await calls.stat(watched.place));
  if (entry.kind != files::Kind::kDirectory) {
    co_return fail(Code::kInvalid, "path is not a directory: " + watched.place.shown, "path");
  }
  co_return co_await parts.sessions.watch(request.principal, session.id, watched.place.served,
                                          watched.recursive);
}

std::string_view eventName(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kCreated:
      return "EVENT_TYPE_CREATE";
    case ChangeKind::kModified:
      return "EVENT_TYPE_WRITE";
    case ChangeKind::kMoved:
      return "EVENT_TYPE_RENAME";
    case ChangeKind::kRemoved:
      return "EVENT_TYPE_REMOVE";
    case ChangeKind::kReady:
    case ChangeKind::kOverflow:
    case ChangeKind::kLimit:
      break;
  }
  return "";
}

// A change as events of inotify's: a move is the end of the old name, and a new one.
std::vector<std::pair<std::string_view, std::string>> namesOf(const files::Change& change) {
  const std::string_view name = eventName(change.kind);
  if (name.empty()) return {};
  if (change.kind != ChangeKind::kMoved) return {{name, shown("", change.path)}};
  return {{name, shown("", change.from)}, {"EVENT_TYPE_CREATE", shown("", change.path)}};
}

// Changes after `seen` as FilesystemEvents; moves `seen` along. kUnavailable after the watch's end.
class Changes {
 public:
  Changes(PlaceCalls calls, std::string path, bool with_entries)
      : calls_(std::move(calls)), path_(std::move(path)), with_entries_(with_entries) {}

  Task<Result<json::array>> take(FileWatch& watch, uint64_t& seen) const {
    json::array events;
    if (!watch.keepsAfter(seen)) {
      seen = watch.last();
      co_return fail(Code::kUnavailable,
                     "watching " + path_ + ": changes were missed; list it again");
    }
    while (const FileWatch::Change* change = watch.after(seen)) {
      seen = change->seq;
      if (change->what.kind == ChangeKind::kOverflow) {
        co_return fail(Code::kUnavailable,
                       "watching " + path_ + ": changes were missed; list it again");
      }
      for (const auto& [type, name] : namesOf(files::Change(change->what)))
        events.push_back(co_await eventOf(type, name));
    }
    co_return events;
  }

 private:
  Task<json::object> eventOf(std::string_view type, std::string name) const {
    json::object event{{"name", name}, {"type", type}};
    const bool gone = type == "EVENT_TYPE_REMOVE" || type == "EVENT_TYPE_RENAME";
    if (!with_entries_ || gone) co_return event;
    const auto place = placeOf(path_ + "/" + name, "path");
    if (!place) co_return event;
    const auto entry = co_await calls_.stat(*place);
    if (entry) event["entry"] = entryInfo(*entry, place->shown);
    co_return event;
  }

  PlaceCalls calls_;
  std::string path_;
  bool with_entries_;
};

Task<void> sendChanges(std::shared_ptr<FileWatch::Reader> reader, Changes changes,
                       BodyWriter& out) {
  FileWatch& watch = *reader->operator->();
  uint64_t seen = watch.last();
  if (!co_await out.write(envelope(json::object{{"start", json::object()}}))) co_return;
  while (true) {
    const auto events = co_await changes.take(watch, seen);
    if (!events) {
      co_await out.write(endOfStream(&events.error()));
      co_return;
    }
    for (const json::value& event : *events) {
      if (!co_await out.write(envelope(json::object{{"filesystem", event}}))) co_return;
    }
    if (watch.closed() && watch.after(seen) == nullptr) break;
    if (!events->empty()) continue;
    const base::Monotonic until = base::monotonicNow() + kKeepAlive;
    co_await watch.wait(seen, until);
    if (base::monotonicNow() < until) continue;
    if (!co_await out.write(envelope(json::object{{"keepalive", json::object()}}))) co_return;
  }
  const Result<> end = watch.end();
  co_await out.write(end ? endOfStream() : endOfStream(&end.error()));
}

Task<Result<Response>> watchDir(RestParts& parts, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(parts, request));
  const Watched watched = CO_TRY(readWatched(message));
  auto reader = CO_TRY(co_await watchOf(parts, request, session, watched));
  const Changes changes(callsOf(parts, request, session), watched.place.shown,
                        watched.with_entries);
  Response response;
  response.with("Content-Type", std::string(kConnectStream)).with("X-Accel-Buffering", "no");
  response.stream = [reader, changes](BodyWriter& out) {
    return sendChanges(reader, changes, out);
  };
  co_return response;
}

struct Polled {
  RestParts& parts;
  Watchers& watchers;
};

Task<Result<Response>> createWatcher(Polled on, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(on.parts, request));
  const Watched watched = CO_TRY(readWatched(message));
  auto reader = CO_TRY(co_await watchOf(on.parts, request, session, watched));
  const uint64_t seen = (*reader)->last();
  const std::string id = CO_TRY(on.watchers.add({.session = session.id,
                                                 .path = watched.place.shown,
                                                 .with_entries = watched.with_entries,
                                                 .reader = std::move(reader),
                                                 .seen = seen}));
  co_return jsonResponse(200, json::object{{"watcherId", id}});
}

Result<std::string> watcherId(const json::object& message) {
  base::ObjectReader reader(message, "");
  return TRY(reader.text("watcherId")).value_or("");
}

Task<Result<Response>> watcherEvents(Polled on, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(on.parts, request));
  const std::string id = CO_TRY(watcherId(message));
  const auto watcher = CO_TRY(on.watchers.find(session.id, id));
  const Changes changes(callsOf(on.parts, request, session), watcher->path, watcher->with_entries);
  json::array events = CO_TRY(co_await changes.take(*watcher->reader->operator->(), watcher->seen));
  co_return jsonResponse(200, json::object{{"events", std::move(events)}});
}

Task<Result<Response>> removeWatcher(Polled on, Request& request, const model::Session& session) {
  const json::object message = CO_TRY(messageOf(on.parts, request));
  const std::string id = CO_TRY(watcherId(message));
  CO_TRY(on.watchers.find(session.id, id));
  on.watchers.remove(id);
  co_return jsonResponse(200, json::object());
}

}  // namespace

Result<std::string> Watchers::add(Watcher watcher) {
  std::erase_if(watchers_, [](const auto& each) { return (*each.second->reader)->closed(); });
  const auto of_session = std::ranges::count_if(
      watchers_, [&](const auto& each) { return each.second->session == watcher.session; });
  if (static_cast<size_t>(of_session) >= kMostWatchers) {
    return fail(Code::kQuota, "a sandbox has at most 64 watchers; remove one");
  }
  std::string id = base::newId("watch");
  watchers_[id] = std::make_shared<Watcher>(std::move(watcher));
  return id;
}

Result<std::shared_ptr<Watchers::Watcher>> Watchers::find(const std::string& session,
                                                          const std::string& id) {
  const auto found = watchers_.find(id);
  if (found != watchers_.end() && found->second->session == session) return found->second;
  return fail(Code::kNotFound, "watcher with id " + id + " not found");
}

std::vector<Route> filesystemRoutes(RestParts& parts, Watchers& watchers) {
  const auto route = [&](std::string_view pattern, Permission permission, auto on, auto handler,
                         std::string_view media) {
    const auto handle = [on, handler](Request& request, const model::Session& session) {
      return handler(on, request, session);
    };
    return Route{.method = "POST",
                 .pattern = pattern,
                 .access = needs(permission),
                 .query = {},
                 .handle = inSandbox(parts, handle),
                 .json_body = true,
                 .media = media};
  };
  constexpr std::string_view kUnary = "application/json";
  const auto one = [&](std::string_view pattern, Permission permission, auto handler,
                       std::string_view media) {
    return route(pattern, permission, std::ref(parts), handler, media);
  };
  const auto polled = [&](std::string_view pattern, auto handler) {
    return route(pattern, Permission::kFileRead, Polled{parts, watchers}, handler, kUnary);
  };
  const auto read = Permission::kFileRead;
  const auto write = Permission::kFileWrite;
  return {
      one("/e2b/filesystem.Filesystem/Stat", read, stat, kUnary),
      one("/e2b/filesystem.Filesystem/ListDir", read, listDir, kUnary),
      one("/e2b/filesystem.Filesystem/MakeDir", write, makeDir, kUnary),
      one("/e2b/filesystem.Filesystem/Move", write, move, kUnary),
      one("/e2b/filesystem.Filesystem/Remove", write, remove, kUnary),
      one("/e2b/filesystem.Filesystem/WatchDir", read, watchDir, kConnectStream),
      polled("/e2b/filesystem.Filesystem/CreateWatcher", createWatcher),
      polled("/e2b/filesystem.Filesystem/GetWatcherEvents", watcherEvents),
      polled("/e2b/filesystem.Filesystem/RemoveWatcher", removeWatcher),
  };
}

}  // namespace cloister::api::compat::e2b
