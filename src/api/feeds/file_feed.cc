// SPDX-License-Identifier: Apache-2.0
#include "api/feeds/file_feed.h"

#include <charconv>
#include <utility>

#include "api/workspace.h"

namespace cloister::api {
namespace {

namespace json = base::json;
using orchestrator::FileWatch;
using wire::files::ChangeKind;

constexpr std::string_view kEnd = ".end";
constexpr size_t kMaxId = 64;

std::string_view typeOf(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kCreated:
      return "created";
    case ChangeKind::kModified:
      return "modified";
    case ChangeKind::kMoved:
      return "moved";
    case ChangeKind::kRemoved:
      return "removed";
    case ChangeKind::kLimit:
      return "limit";
    case ChangeKind::kReady:  // said once, by no file server again
    case ChangeKind::kOverflow:
      break;
  }
  return "overflow";
}

}  // namespace

Result<FilePosition> FilePosition::parse(std::string_view text) {
  FilePosition position;
  const std::string_view whole = text;
  position.ended = text.ends_with(kEnd);
  if (position.ended) text.remove_suffix(kEnd.size());
  const size_t dot = text.find('.');
  if (dot != std::string_view::npos && dot > 0 && whole.size() <= kMaxId) {
    position.watch = text.substr(0, dot);
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data() + dot + 1, end, position.seq);
    if (parsed.ec == std::errc() && parsed.ptr == end) return position;
  }
  return fail(Code::kInvalid, "event id: not one of this service", "header.Last-Event-ID");
}

std::string FilePosition::text() const {
  return watch + "." + std::to_string(seq) + std::string(ended ? kEnd : "");
}

FileFeed::FileFeed(ReaderPtr watch, std::string path, const FilePosition& from, Millis heartbeat)
    : watch_(std::move(watch)),
      path_(std::move(path)),
      position_(from),
      untold_((*watch_)->unwatched()),
      heartbeat_(heartbeat),
      next_heartbeat_(base::monotonicNow() + heartbeat) {
  const bool same = from.watch == (*watch_)->id();
  if (same && (*watch_)->keepsAfter(from.seq)) return;
  skip();
  first_ = from.watch.empty() ? "ready" : "overflow";
}

// Moves to the watch's present place, and queues the unwatched directories to be reported.
void FileFeed::skip() {
  position_ = {.watch = (*watch_)->id(), .seq = (*watch_)->last()};
  first_ = "overflow";
  untold_ = (*watch_)->unwatched();
}

Task<std::optional<Event>> FileFeed::next() {
  while (!position_.ended) {
    if (auto event = ready()) co_return event;
    const base::Monotonic now = base::monotonicNow();
    if (now >= next_heartbeat_) {
      next_heartbeat_ = now + heartbeat_;
      co_return Event{
          .type = "heartbeat", .id = "", .data = {{"time", base::formatTime(base::wallMicros())}}};
    }
    co_await (*watch_)->wait(position_.seq, next_heartbeat_);
  }
  co_return std::nullopt;
}

std::optional<Event> FileFeed::ready() {
  FileWatch& watch = *watch_->operator->();
  if (first_.empty() && !watch.keepsAfter(position_.seq)) skip();
  if (!first_.empty()) return event(std::exchange(first_, ""), {{"path", shown(path_, "")}});
  if (!untold_.empty()) {
    const std::string path = std::move(untold_.back());
    untold_.pop_back();
    return event("limit", {{"path", shown(path_, path)}});
  }
  if (const auto* change = watch.after(position_.seq)) return changed(*change);
  if (!watch.closed()) return std::nullopt;
  position_.ended = true;
  const Result<> end = watch.end();
  return event("end", {{"reason", end ? "the directory is gone" : end.error().message}});
}

Event FileFeed::changed(const FileWatch::Change& change) {
  const wire::files::Change& what = change.what;
  position_.seq = change.seq;
  json::object data{{"path", shown(path_, what.path)}};
  if (what.kind != ChangeKind::kOverflow && what.kind != ChangeKind::kLimit) {
    data["directory"] = what.directory;
  }
  if (what.kind == ChangeKind::kMoved) data["from"] = shown(path_, what.from);
  return event(std::string(typeOf(what.kind)), std::move(data));
}

Event FileFeed::event(std::string type, json::object data) const {
  return {.type = std::move(type), .id = position_.text(), .data = std::move(data)};
}

}  // namespace cloister::api
