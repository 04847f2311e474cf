// SPDX-License-Identifier: Apache-2.0
#include "api/feeds/event_feed.h"

#include <algorithm>
#include <charconv>

#include "base/crypto.h"

namespace cloister::api {
namespace {

namespace json = base::json;

// The most output bytes in an event.
constexpr size_t kPiece = size_t{16} << 10;
constexpr Millis kUsageEvery{1'000};

uint64_t rankOf(model::Status status) {
  return static_cast<uint64_t>(status) + 1;
}

bool isTerminalRank(uint64_t rank) {
  return rank > 0 && rank <= rankOf(model::Status::kDenied) &&
         model::isTerminal(static_cast<model::Status>(rank - 1));
}

}  // namespace

Result<Position> Position::parse(std::string_view text) {
  Position position;
  const auto refused =
      fail(Code::kInvalid, "event id: not one of this service", "header.Last-Event-ID");
  for (uint64_t* part : {&position.status, &position.out, &position.err}) {
    const size_t dot = part == &position.err ? text.size() : text.find('.');
    if (dot == std::string_view::npos) return refused;
    const auto parsed = std::from_chars(text.data(), text.data() + dot, *part);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + dot) return refused;
    text.remove_prefix(std::min(dot + 1, text.size()));
  }
  return position;
}

std::string Position::text() const {
  return std::to_string(status) + "." + std::to_string(out) + "." + std::to_string(err);
}

bool Position::ended() const {
  return isTerminalRank(status);
}

EventFeed::EventFeed(std::shared_ptr<orchestrator::OutputLog> log, Position from, Millis heartbeat)
    : log_(std::move(log)),
      position_(from),
      heartbeat_(heartbeat),
      next_heartbeat_(base::monotonicNow() + heartbeat),
      next_usage_(base::monotonicNow()) {
  if (from.status == 0) history_ = log_->latest().usage_history.points();
}

Task<std::optional<Event>> EventFeed::next() {
  while (!position_.ended()) {
    const uint64_t seen = log_->version();
    if (auto event = ready()) co_return event;
    if (log_->closed()) break;
    co_await log_->wait(seen, patience());
  }
  co_return std::nullopt;
}

// The time until the next event that the log does not announce.
Millis EventFeed::patience() const {
  const bool usage_held_back = next_usage_ > base::monotonicNow();
  const auto until = usage_held_back ? std::min(next_heartbeat_, next_usage_) : next_heartbeat_;
  return std::max(Millis(1), std::chrono::ceil<Millis>(until - base::monotonicNow()));
}

// The order of a run's end: all output, then the artifacts, then the final use, then the status.
std::optional<Event> EventFeed::ready() {
  const bool ended = model::isTerminal(log_->latest().status);
  if (!ended) {
    if (auto event = heartbeatEvent()) return event;
    if (auto event = statusEvent()) return event;
  }
  if (auto event = outputEvent(model::Stream::kStdout, "stdout", position_.out)) return event;
  if (auto event = outputEvent(model::Stream::kStderr, "stderr", position_.err)) return event;
  if (!ended) return usageEvent(false);
  if (auto event = artifactEvent()) return event;
  if (auto event = usageEvent(true)) return event;
  return statusEvent();
}

std::optional<Event> EventFeed::heartbeatEvent() {
  const base::Monotonic now = base::monotonicNow();
  if (now < next_heartbeat_) return std::nullopt;
  next_heartbeat_ = now + heartbeat_;
  return Event{
      .type = "heartbeat", .id = "", .data = {{"time", base::formatTime(base::wallMicros())}}};
}

std::optional<Event> EventFeed::statusEvent() {
  const uint64_t rank = rankOf(log_->latest().status);
  if (rank == position_.status) return std::nullopt;
  position_.status = rank;
  return event("status", summary(log_->latest()));
}

std::optional<Event> EventFeed::outputEvent(model::Stream stream, std::string_view name,
                                            uint64_t& offset) {
  const std::string_view bytes = log_->kept(stream, offset).substr(0, kPiece);
  if (bytes.empty()) return std::nullopt;
  const uint64_t at = std::max(offset, log_->begin(stream));
  offset = at + bytes.size();
  return event(std::string(name), {{"offset", at}, {"data", base::toBase64(bytes)}});
}

std::optional<Event> EventFeed::usageEvent(bool final) {
  if (points_ < history_.size()) {
    return event("usage", model::toJsonObject(history_[points_++]));
  }
  const base::Monotonic now = base::monotonicNow();
  if (!final && now < next_usage_) return std::nullopt;
  json::object usage = model::toJsonObject(log_->latest().usage);
  if (log_->latest().usage.wall_ms == 0 || usage == usage_) return std::nullopt;
  usage_ = usage;
  next_usage_ = now + kUsageEvery;
  return event("usage", std::move(usage));
}

std::optional<Event> EventFeed::artifactEvent() {
  const auto& artifacts = log_->latest().artifacts;
  if (artifacts_ >= artifacts.size()) return std::nullopt;
  return event("artifact", model::toJsonObject(artifacts[artifacts_++]));
}

Event EventFeed::event(std::string type, json::object data) const {
  return {.type = std::move(type), .id = position_.text(), .data = std::move(data)};
}

json::object summary(const model::Execution& execution) {
  json::object object = model::toJsonObject(execution);
  for (const std::string_view member : {"stdout", "stderr", "stdout_encoding", "stderr_encoding"})
    object.erase(member);
  return object;
}

std::string toServerSentEvent(const Event& event) {
  std::string text = event.id.empty() ? "" : "id: " + event.id + "\n";
  return text + "event: " + event.type + "\ndata: " + base::toJson(event.data) + "\n\n";
}

std::string toWebSocketMessage(Event event) {
  json::object message = {{"type", event.type}};
  if (!event.id.empty()) message["id"] = event.id;
  if (event.type == "status") {
    message["status"] = event.data["status"];
    message["execution"] = std::move(event.data);
  } else if (event.type == "usage" || event.type == "artifact") {
    message[event.type] = std::move(event.data);
  } else {
    for (auto& member : event.data)
      message[member.key()] = std::move(member.value());
  }
  return base::toJson(message);
}

}  // namespace cloister::api
