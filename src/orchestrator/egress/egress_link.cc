// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/egress/egress_link.h"

#include <algorithm>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/log.h"
#include "net/unix_stream.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

namespace asio = boost::asio;
using wire::egress::FromEgress;
using wire::egress::ToEgress;

constexpr Millis kFirstBackOff{5};
constexpr Millis kLongestBackOff{500};
constexpr Millis kHelloPatience{5'000};
constexpr size_t kMostCalls = 4096;
constexpr size_t kMostQueued = 64;  // batches that wait for the ledger

std::string number64(uint64_t value) {
  std::string payload(sizeof value, '\0');
  wire::Writer(payload.data(), payload.size()).u64(value);
  return payload;
}

std::unexpected<Error> broken(const std::string& what) {
  return fail(Code::kInvalid, "hearing cloister-egress: " + what);
}

std::unexpected<Error> unreachable(const std::string& why) {
  return fail(Code::kUnavailable, "the network service (cloister-egress) " + why +
                                      "; runs without a network are not affected; try again");
}

// The error of a refused call, as text for a reader.
Error toldByEgress(const std::string& payload) {
  auto told = wire::decodeError(payload);
  if (!told) return {Code::kInternal, "cloister-egress failed without a readable reason", {}};
  Error error = *std::move(told);
  const bool usual = error.code == Code::kConflict || error.code == Code::kNotFound ||
                     error.code == Code::kQuota || error.code == Code::kDenied;
  if (!usual) error.code = Code::kInternal;
  error.field.clear();
  return error;
}

}  // namespace

EgressLink::EgressLink(asio::any_io_executor executor, Watcher& watcher, Terms terms)
    : executor_(std::move(executor)), watcher_(watcher), terms_(terms), changed_(executor_) {}

void EgressLink::start() {
  async::spawn(executor_, recordAll(shared_from_this()));
}

// --- the connection

Task<void> EgressLink::keepConnected(std::shared_ptr<EgressLink> self, std::string socket_path) {
  Millis pause = kFirstBackOff;
  for (;;) {
    auto stream = co_await net::connectUnix(socket_path);
    if (!stream) {
      base::log(base::Level::kDebug, "cloister-egress not reached",
                {{"reason", stream.error().message}});
    }
    const bool served = stream && co_await serveOne(self, *std::move(stream));
    pause = served ? kFirstBackOff : std::min(pause * 2, kLongestBackOff);
    asio::steady_timer timer(self->executor_, pause);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

Task<void> EgressLink::serve(std::shared_ptr<EgressLink> self,
                             net::FrameConnection::Stream stream) {
  co_await serveOne(std::move(self), std::move(stream));
}

Task<bool> EgressLink::serveOne(std::shared_ptr<EgressLink> self,
                                net::FrameConnection::Stream stream) {
  const pid_t peer = stream->peer().value_or(net::ByteStream::Peer{}).pid;  // 0: unknown
  const auto connection = std::make_shared<net::FrameConnection>(std::move(stream));
  self->connection_ = connection;
  async::spawn(self->executor_, closeLate(connection, self));
  auto frame = co_await connection->read(wire::egress::kMaxPayload);
  Result<> going = frame ? self->greet(*frame, peer) : std::unexpected(std::move(frame).error());
  const bool greeted = going.has_value();
  if (greeted) async::spawn(self->executor_, self->watcher_.connected());
  while (going && !connection->closed()) {
    auto next = co_await connection->read(wire::egress::kMaxPayload);
    going = next ? self->take(*std::move(next)) : std::unexpected(std::move(next).error());
  }
  if (self->connection_ == connection)
    self->end(going ? "the connection was closed" : going.error().message);
  co_return greeted;
}

// Nobody waits for ever for the first message.
Task<void> EgressLink::closeLate(std::shared_ptr<net::FrameConnection> connection,
                                 std::shared_ptr<EgressLink> self) {
  const base::Monotonic until = base::monotonicNow() + kHelloPatience;
  const auto waits = [&] { return self->connection_ == connection && !self->ready_; };
  while (waits() && base::monotonicNow() < until)
    co_await self->changed_.wait(until);
  if (waits()) connection->close();
}

Result<> EgressLink::greet(const net::Frame& hello, pid_t peer) {
  wire::Reader reader(hello.payload);
  const uint64_t last = reader.u64();
  if (hello.type != static_cast<uint16_t>(FromEgress::kHello) || hello.channel != 0 ||
      !reader.done()) {
    return broken("its first message is another");
  }
  // A number of an earlier process is lower than all of this one, so it hides no batch. A higher
  // one is of a clock that was set back since.
  const uint64_t before = process_ == 0 ? watcher_.lastRecorded() : 0;
  if (peer != peer_ || last < seen_ || process_ == 0) {
    process_++;
    seen_ = taken_ = before <= last ? before : 0;
  }
  peer_ = peer;
  ready_ = true;
  base::log(base::Level::kInfo, "cloister-egress connected", {{"pid", std::to_string(peer)}});
  if (refusing_) post(ToEgress::kStop, std::string(1, '\1'));
  if (taken_ > 0) acknowledge();
  changed_.notify();
  return {};
}

void EgressLink::end(const std::string& reason) {
  if (!connection_) return;
  connection_->close();
  connection_ = nullptr;
  if (std::exchange(ready_, false)) {
    base::log(base::Level::kWarn, "cloister-egress lost", {{"reason", reason}});
    watcher_.disconnected();
  }
  for (const auto& [number, call] : std::exchange(calls_, {})) {
    call->answer = unreachable("ended its connection");
    call->answered.notify();
  }
  changed_.notify();
}

void EgressLink::post(ToEgress type, std::string payload) {
  if (ready_) connection_->post(static_cast<uint16_t>(type), 0, std::move(payload));
}

void EgressLink::acknowledge() {
  post(ToEgress::kTaken, number64(taken_));
}

// --- messages

Result<> EgressLink::take(net::Frame frame) {
  switch (static_cast<FromEgress>(frame.type)) {
    case FromEgress::kPlanned:
    case FromEgress::kFailed:
    case FromEgress::kUsed:
      return takeAnswer(std::move(frame));
    case FromEgress::kAttempts:
      return takeBatch(frame);
    case FromEgress::kWanted:
      if (frame.channel != 0) break;
      watcher_.wanted(TRY(wire::egress::decodeWanted(frame.payload)));
      return {};
    default:
      break;
  }
  return broken("message " + std::to_string(frame.type) + " is not expected");
}

Result<> EgressLink::takeAnswer(net::Frame frame) {
  const auto found = calls_.find(frame.channel);
  if (found == calls_.end()) return broken("it answers what was not asked");
  found->second->answer = std::move(frame);
  found->second->answered.notify();
  calls_.erase(found);
  return {};
}

// Batches beyond the bound are dropped; cloister-egress still has them, and repeats them after a
// reconnection, which follows once the ledger accepts again.
Result<> EgressLink::takeBatch(const net::Frame& frame) {
  if (frame.channel != 0) return broken("a batch has no channel");
  wire::egress::Batch batch = TRY(wire::egress::decodeBatch(frame.payload));
  if (batch.number == 0) return broken("a batch has no number");
  if (batch.number <= taken_) {
    acknowledge();
    return {};
  }
  if (batch.number <= seen_) return {};
  if (dropped_ || queue_.size() >= kMostQueued) {
    dropped_ = true;
    return {};
  }
  seen_ = batch.number;
  queue_.push_back({process_, std::move(batch)});
  changed_.notify();
  return {};
}

// --- recording

Task<void> EgressLink::recordAll(std::shared_ptr<EgressLink> self) {
  for (;;) {
    while (self->queue_.empty())
      co_await self->changed_.wait();
    const Queued next = self->queue_.front();
    const Result<> done = co_await self->watcher_.record(next.batch);
    if (done) {
      self->queue_.pop_front();
      self->recorded(next);
      continue;
    }
    base::log(base::Level::kError, "attempts to use the network not recorded",
              {{"reason", done.error().message}});
    self->stuck_ = true;
    self->refuseOrAllow();
    asio::steady_timer timer(self->executor_, self->terms_.retry);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

void EgressLink::recorded(const Queued& done) {
  if (done.process == process_) {
    taken_ = std::max(taken_, done.batch.number);
    acknowledge();
  }
  if (!queue_.empty()) return;
  stuck_ = false;
  refuseOrAllow();
  if (std::exchange(dropped_, false)) end("the ledger was behind; it repeats what was left out");
}

void EgressLink::ledgerAccepts(bool accepts) {
  closed_ = !accepts;
  refuseOrAllow();
}

void EgressLink::refuseOrAllow() {
  const bool refuses = stuck_ || closed_;
  if (std::exchange(refusing_, refuses) == refuses) return;
  post(ToEgress::kStop, std::string(1, refuses ? '\1' : '\0'));
  watcher_.refusing(refuses);
}

// --- calls

Task<Result<>> EgressLink::waitConnected(std::shared_ptr<EgressLink> self) {
  const base::Monotonic until = base::monotonicNow() + self->terms_.connect;
  while (!self->ready_ && base::monotonicNow() < until)
    co_await self->changed_.wait(until);
  if (!self->ready_) co_return unreachable("is not connected");
  co_return Result<>{};
}

Task<Result<EgressLink::Sent>> EgressLink::send(std::shared_ptr<EgressLink> self, ToEgress type,
                                                std::string payload, std::string secrets) {
  CO_TRY(co_await waitConnected(self));
  if (self->calls_.size() >= kMostCalls) co_return unreachable("has too many requests");
  const uint32_t number = self->next_call_++;
  if (self->next_call_ == 0) self->next_call_ = 1;
  const auto call = std::make_shared<Call>(self->executor_);
  self->calls_[number] = call;
  call->connection = self->connection_;
  if (!secrets.empty()) self->post(ToEgress::kSecrets, std::move(secrets));
  co_await call->connection->send(static_cast<uint16_t>(type), number, std::move(payload));
  call->until = base::monotonicNow() + self->terms_.answer;
  co_return call;
}

Task<Result<net::Frame>> EgressLink::answerTo(std::shared_ptr<EgressLink> self, Sent call) {
  while (!call->answer && base::monotonicNow() < call->until)
    co_await call->answered.wait(call->until);
  // The process hangs: its connection ends, and so this call.
  if (!call->answer && self->connection_ == call->connection) {
    self->end("it did not answer in time");
  }
  if (!call->answer) co_return unreachable("did not answer in time");
  net::Frame answer = CO_TRY(*std::move(call->answer));
  if (answer.type != static_cast<uint16_t>(FromEgress::kFailed)) co_return answer;
  co_return std::unexpected(toldByEgress(answer.payload));
}

Task<Result<std::string>> EgressLink::plan(std::shared_ptr<EgressLink> self, model::SignedPlan plan,
                                           std::string secrets) {
  Sent sent = CO_TRY(co_await sendPlan(self, std::move(plan), std::move(secrets)));
  co_return co_await planned(std::move(self), std::move(sent));
}

Task<Result<EgressLink::Sent>> EgressLink::sendPlan(std::shared_ptr<EgressLink> self,
                                                    model::SignedPlan plan, std::string secrets) {
  co_return co_await send(std::move(self), ToEgress::kPlan, wire::egress::encodeSignedPlan(plan),
                          std::move(secrets));
}

Task<Result<std::string>> EgressLink::planned(std::shared_ptr<EgressLink> self, Sent sent) {
  net::Frame answer = CO_TRY(co_await answerTo(self, std::move(sent)));
  const bool planned = answer.type == static_cast<uint16_t>(FromEgress::kPlanned);
  if (planned && base::isUtf8(answer.payload)) co_return std::move(answer.payload);
  self->end("it answered a plan with another message");
  co_return unreachable("answered wrongly");
}

Task<Result<model::NetworkUse>> EgressLink::use(std::shared_ptr<EgressLink> self,
                                                std::string permit) {
  Sent sent = CO_TRY(co_await send(self, ToEgress::kUse, std::move(permit)));
  const net::Frame answer = CO_TRY(co_await answerTo(self, std::move(sent)));
  constexpr base::JsonLimits kBounds{.max_bytes = wire::egress::kMaxPayload};
  const auto parsed = base::parseJson(answer.payload, kBounds);
  if (answer.type == static_cast<uint16_t>(FromEgress::kUsed) && parsed && parsed->is_object()) {
    co_return model::readNetworkUse(parsed->get_object());
  }
  self->end("its account of a sandbox's use is malformed");
  co_return unreachable("answered wrongly");
}

void EgressLink::forget(const std::string& permit) {
  post(ToEgress::kForget, permit);
}

}  // namespace cloister::orchestrator
