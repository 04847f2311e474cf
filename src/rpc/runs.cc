// SPDX-License-Identifier: Apache-2.0
#include "rpc/runs.h"

#include <algorithm>
#include <utility>

#include "base/id.h"
#include "base/log.h"
#include "rpc/json_mapping.h"

namespace cloister::rpc {
namespace {

using base::monotonicNow;
using net::HttpConnection;
using End = Call::End;

constexpr Millis kToAnswer{60'000};  // the service, beyond a wait
constexpr Millis kToCancel{10'000};
constexpr Millis kSilence{60'000};  // a stream of events has a heartbeat every 15 s
constexpr Millis kBefore{100};      // the deadline: what remains for the answer

Ask askFor(const Run& run, std::string query, const std::string& key) {
  Ask ask{.method = "POST", .target = run.target + std::move(query), .body = run.body};
  if (!key.empty()) ask.more.emplace("idempotency-key", key);
  return ask;
}

// A key of ours for a call that has none; "" if the call has one.
std::string keyFor(const Call& call) {
  const bool own = call.headers() && call.headers()->contains("idempotency-key");
  return own ? "" : base::newId("grpc");
}

Refusal deadlinePassed() {
  return Refusal(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "the deadline has passed"));
}

// The execution of a request that may have been sent, in its present state.
Task<Reply<>> find(Upstream& upstream, Call& call, const Run& run, const std::string& key,
                   base::Monotonic deadline, v1::Execution& out) {
  Exchange exchange(upstream, call, false);
  CO_TRY(co_await exchange.succeed(askFor(run, "", key), deadline));
  const std::string body = CO_TRY(co_await exchange.rest(deadline));
  co_return upstream.read(body, out);
}

Task<Reply<>> answerOf(Upstream& upstream, Call& call, Ask ask, base::Monotonic until,
                       v1::Execution& out) {
  Exchange exchange(upstream, call);
  CO_TRY(co_await exchange.succeed(ask, until));
  const std::string body = CO_TRY(co_await exchange.rest(until));
  co_return upstream.read(body, out);
}

// After a cancelled call. `id`: "" while not known.
Task<void> cancel(Upstream& upstream, Call& call, const Run& run, const std::string& key,
                  std::string id) {
  const auto deadline = monotonicNow() + kToCancel;
  if (id.empty()) {
    v1::Execution execution;
    if (!co_await find(upstream, call, run, key, deadline, execution)) co_return;  // refused
    id = execution.id();
  }
  Exchange exchange(upstream, call, false);
  const auto done = co_await exchange.succeed(
      {.method = "DELETE", .target = "/v1/executions/" + net::percentEncode(id)}, deadline);
  if (done) co_return;
  base::log(base::Level::kWarn, "an execution outlives its cancelled call",
            {{"execution", id}, {"error", done.error().status.error_message()}});
}

bool isTerminal(const std::string& status) {
  constexpr std::string_view kTerminal[] = {"completed", "failed", "timed_out", "cancelled",
                                            "denied"};
  return std::ranges::find(kTerminal, status) != std::end(kTerminal);
}

// False for an event of a kind that the messages do not know.
Reply<bool> readEvent(const net::SseEvent& from, v1::Event& event) {
  event.Clear();
  if (from.type == "heartbeat") {
    TRY(fromAnswer(from.data, *event.mutable_heartbeat()));
    return true;
  }
  event.set_position(from.id);
  if (from.type == "status") {
    TRY(fromAnswer(from.data, *event.mutable_status()));
  } else if (from.type == "stdout") {
    TRY(fromAnswer(from.data, *event.mutable_stdout()));
  } else if (from.type == "stderr") {
    TRY(fromAnswer(from.data, *event.mutable_stderr()));
  } else if (from.type == "usage") {
    TRY(fromAnswer(from.data, *event.mutable_usage()));
  } else if (from.type == "artifact") {
    TRY(fromAnswer(from.data, *event.mutable_artifact()));
  } else {
    return false;
  }
  return true;
}

struct Following {
  std::string id;
  std::string position;
  TakeEvent take;
  bool over = false;  // the execution has ended, or `take` wants no more
};

// One stream of events, until its end or a break.
Task<Reply<>> readEvents(Exchange& exchange, Following& following) {
  net::SseParser parser;
  v1::Event event;
  for (;;) {
    std::string bytes;
    const auto piece = CO_TRY(co_await exchange.read(bytes, monotonicNow() + kSilence));
    if (piece == HttpConnection::Piece::kTimeout) {
      co_return std::unexpected(Refusal(Error{Code::kUnavailable, "the events stay away", ""}));
    }
    for (const net::SseEvent& each : CO_TRY(parser.feed(bytes))) {
      if (!CO_TRY(readEvent(each, event))) continue;
      const bool last = event.has_status() && isTerminal(event.status().status());
      following.over = !CO_TRY(co_await following.take(event)) || last;
      if (!event.position().empty()) following.position = event.position();
      if (following.over) co_return Reply<>{};
    }
    if (piece == HttpConnection::Piece::kEnd) co_return Reply<>{};
  }
}

Task<Reply<>> followOnce(Upstream& upstream, Call& call, Following& following) {
  Ask ask{.target = "/v1/executions/" + following.id + "/events", .accept = "text/event-stream"};
  if (!following.position.empty()) ask.more.emplace("Last-Event-ID", following.position);
  Exchange exchange(upstream, call);
  const net::HttpHead head = CO_TRY(co_await exchange.succeed(ask, call.within(kToAnswer)));
  if (head.status == 204) {
    following.over = true;
    co_return Reply<>{};
  }
  co_return co_await readEvents(exchange, following);
}

bool isTransient(const Refusal& refusal) {
  return refusal.status.error_code() == grpc::StatusCode::UNAVAILABLE;
}

// Sends one event of a run.
Task<Reply<bool>> sendRun(Call& call, Sender<v1::RunEvent>& sender, const v1::RunEvent& event) {
  if (co_await sender.send(event)) co_return true;
  call.end(End::kCancelled);
  co_return std::unexpected(call.refusal(Error{}));
}

Task<Reply<>> sendEvents(Upstream& upstream, Call& call, Sender<v1::RunEvent>& sender,
                         v1::RunEvent& event) {
  const std::string id = event.started().id();
  CO_TRY(co_await sendRun(call, sender, event));
  CO_TRY(co_await follow(upstream, call, id, "", [&](v1::Event& each) -> Task<Reply<bool>> {
    event.mutable_event()->Swap(&each);
    auto sent = co_await sendRun(call, sender, event);
    event.mutable_event()->Swap(&each);
    co_return sent;
  }));
  CO_TRY(co_await upstream.exchange(call, {.target = "/v1/executions/" + id},
                                    *event.mutable_finished()));
  CO_TRY(co_await sendRun(call, sender, event));
  co_return Reply<>{};
}

}  // namespace

Task<Reply<>> runAndWait(Upstream& upstream, Call& call, Run run, std::optional<uint32_t> wait,
                         v1::Execution& out) {
  if (run.background) {
    co_return co_await upstream.exchange(call, askFor(run, "", ""), out);
  }
  if (call.ended() != End::kNone) co_return std::unexpected(call.refusal(Error{}));
  const std::string key = keyFor(call);
  const int64_t seconds = call.waitSeconds(wait);
  // A wait of the service has whole seconds. A short deadline ends one earlier.
  const int64_t asked = seconds == 0 && wait.value_or(1) > 0 ? 1 : seconds;
  const std::string query = asked > 0 ? "?wait=" + std::to_string(asked) : "";
  auto until = monotonicNow() + std::chrono::seconds(asked) + kToAnswer;
  if (call.deadline()) until = std::min(until, *call.deadline() - kBefore);
  auto done = co_await answerOf(upstream, call, askFor(run, query, key), until, out);
  if (call.ended() == End::kCancelled) {
    co_await cancel(upstream, call, run, key, done ? out.id() : "");
    co_return std::unexpected(call.refusal(Error{}));
  }
  const bool early = call.deadline() && monotonicNow() >= *call.deadline() - kBefore;
  if (done || call.ended() != End::kNone || !early) co_return done;
  // The wait had no answer in time: the running execution.
  auto found = co_await find(upstream, call, run, key, *call.deadline(), out);
  if (call.ended() == End::kCancelled) {
    co_await cancel(upstream, call, run, key, out.id());
    co_return std::unexpected(call.refusal(Error{}));
  }
  if (!found) co_return std::unexpected(deadlinePassed());
  co_return found;
}

Task<Reply<>> runAndFollow(Upstream& upstream, Call& call, Run run, Sender<v1::RunEvent>& sender) {
  if (call.ended() != End::kNone) co_return std::unexpected(call.refusal(Error{}));
  const std::string key = run.background ? "" : keyFor(call);
  v1::RunEvent event;
  auto done = co_await upstream.exchange(call, askFor(run, "", key), *event.mutable_started());
  const std::string id = done ? event.started().id() : "";
  if (done) done = co_await sendEvents(upstream, call, sender, event);
  if (call.ended() == End::kCancelled && !run.background) {
    co_await cancel(upstream, call, run, key, id);
  }
  co_return done;
}

Task<Reply<>> follow(Upstream& upstream, Call& call, std::string id, std::string position,
                     TakeEvent take) {
  Following following{std::move(id), std::move(position), std::move(take)};
  for (;;) {
    const std::string before = following.position;
    auto done = co_await followOnce(upstream, call, following);
    if (following.over) co_return Reply<>{};
    const bool moved = following.position != before;
    if (call.ended() != End::kNone || (!done && !(moved && isTransient(done.error())))) {
      co_return std::unexpected(done ? call.refusal(Error{}) : done.error());
    }
    if (!moved) {
      co_return std::unexpected(
          Refusal(Error{Code::kUnavailable, "the service ends the events early", ""}));
    }
  }
}

}  // namespace cloister::rpc
