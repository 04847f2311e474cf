// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/sessions/session_log.h"

#include <utility>

namespace cloister::orchestrator {
namespace {

// The size of the client's texts, which may be megabytes, and are in each state.
size_t costOf(const SessionEvent& event) {
  if (!event.session) return 0;
  size_t cost = base::toJson(event.session->metadata).size();
  for (const auto& [name, value] : event.session->env)
    cost += name.size() + value.size();
  return cost;
}

}  // namespace

std::shared_ptr<SessionLog> SessionLog::ofRecord(boost::asio::any_io_executor executor,
                                                 const model::Session& session) {
  auto log = std::make_shared<SessionLog>(std::move(executor));
  log->publish(session);
  return log;
}

void SessionLog::publish(const model::Session& session) {
  latest_ = session;
  closed_ = session.status == model::SessionStatus::kEnded;
  add({.seq = 0, .session = session, .execution = {}, .tenant = {}, .agent = {}});
}

void SessionLog::publish(const model::Execution& execution) {
  if (closed_) return;
  add({.seq = 0,
       .session = {},
       .execution = execution.id,
       .status = execution.status,
       .tenant = execution.principal.tenant,
       .agent = execution.principal.agent});
}

void SessionLog::close() {
  closed_ = true;
  changed_.notify();
}

void SessionLog::add(SessionEvent event) {
  event.seq = ++last_;
  const size_t cost = costOf(event);
  events_.push_back({std::move(event), cost});
  bytes_ += cost;
  while (events_.size() > kKept || (bytes_ > kKeptBytes && events_.size() > 1)) {
    bytes_ -= events_.front().cost;
    events_.pop_front();
  }
  changed_.notify();
}

std::optional<SessionEvent> SessionLog::after(uint64_t seq) const {
  if (events_.empty() || seq == last_) return std::nullopt;
  const uint64_t first = events_.front().event.seq;
  if (seq > last_ || seq + 1 < first) {
    return SessionEvent{.seq = closed_ ? last_ : first - 1,
                        .session = latest_,
                        .execution = {},
                        .tenant = {},
                        .agent = {}};
  }
  return events_[static_cast<size_t>(seq + 1 - first)].event;
}

boost::asio::awaitable<void> SessionLog::wait(uint64_t seq, std::chrono::milliseconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (seq == last_ && !closed_ && std::chrono::steady_clock::now() < until)
    co_await changed_.wait(until);
}

}  // namespace cloister::orchestrator
