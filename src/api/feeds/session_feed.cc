// SPDX-License-Identifier: Apache-2.0
#include "api/feeds/session_feed.h"

#include <charconv>

namespace cloister::api {
namespace {

constexpr std::string_view kEnd = ".end";

}  // namespace

Result<SessionPosition> SessionPosition::parse(std::string_view text) {
  SessionPosition position;
  position.ended = text.ends_with(kEnd);
  if (position.ended) text.remove_suffix(kEnd.size());
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, position.seq);
  if (parsed.ec == std::errc() && parsed.ptr == end) return position;
  return fail(Code::kInvalid, "event id: not one of this service", "header.Last-Event-ID");
}

std::string SessionPosition::text() const {
  return std::to_string(seq) + std::string(ended ? kEnd : "");
}

SessionFeed::SessionFeed(std::shared_ptr<orchestrator::SessionLog> log, SessionPosition from,
                         Millis heartbeat, model::Principal reader)
    : log_(std::move(log)),
      position_(from),
      heartbeat_(heartbeat),
      reader_(std::move(reader)),
      next_heartbeat_(base::monotonicNow() + heartbeat) {}

Task<std::optional<Event>> SessionFeed::next() {
  while (!position_.ended) {
    if (const auto event = log_->after(position_.seq)) {
      if (event->session || reader_.sees(event->tenant, event->agent)) co_return give(*event);
      position_.seq = event->seq;  // another agent's program
      continue;
    }
    if (log_->closed()) {
      // A reader of an earlier log, from before a restart, may have reached this log's last number.
      if (log_->latest().status != model::SessionStatus::kEnded) break;
      co_return give({.seq = position_.seq,
                      .session = log_->latest(),
                      .execution = {},
                      .tenant = {},
                      .agent = {}});
    }
    const base::Monotonic now = base::monotonicNow();
    if (now >= next_heartbeat_) {
      next_heartbeat_ = now + heartbeat_;
      co_return Event{
          .type = "heartbeat", .id = "", .data = {{"time", base::formatTime(base::wallMicros())}}};
    }
    co_await log_->wait(position_.seq, std::chrono::ceil<Millis>(next_heartbeat_ - now));
  }
  co_return std::nullopt;
}

Event SessionFeed::give(const orchestrator::SessionEvent& event) {
  position_.seq = event.seq;
  if (!event.session) {
    return {.type = "execution",
            .id = position_.text(),
            .data = {{"id", event.execution}, {"status", model::statusName(event.status)}}};
  }
  position_.ended = event.session->status == model::SessionStatus::kEnded;
  return {
      .type = "status", .id = position_.text(), .data = model::shownTo(reader_, *event.session)};
}

}  // namespace cloister::api
