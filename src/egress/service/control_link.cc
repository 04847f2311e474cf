// SPDX-License-Identifier: Apache-2.0
#include "egress/service/control_link.h"

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/json.h"
#include "base/log.h"
#include "egress/broker/vault.h"
#include "egress/service/listen.h"
#include "net/unix_stream.h"
#include "wire/codec.h"
#include "wire/node.h"
#include "wire/string_writer.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
using asio::local::stream_protocol;
using wire::egress::FromEgress;
using wire::egress::ToEgress;

constexpr auto kQuietly = asio::as_tuple(asio::use_awaitable);
constexpr Millis kBatchPause{1'000};
constexpr Millis kAcceptPause{100};

std::string numberBytes(uint64_t number) {
  wire::StringWriter writer;
  writer.u64(number);
  return writer.take();
}

bool isSecret(const net::Frame& frame) {
  return static_cast<ToEgress>(frame.type) == ToEgress::kSecrets;
}

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::kInvalid, "reading a message of the control plane: " + std::string(what));
}

asio::awaitable<void> sleepFor(asio::any_io_executor executor, Millis time) {
  asio::steady_timer timer(std::move(executor), time);
  co_await timer.async_wait(kQuietly);
}

}  // namespace

ControlLink::ControlLink(asio::any_io_executor executor, const Settings& settings, uint32_t uid,
                         std::function<Result<base::VerifyKey>()> key, Plans& plans, Record& record)
    : executor_(std::move(executor)),
      settings_(settings),
      uid_(uid),
      key_(std::move(key)),
      plans_(plans),
      record_(record) {}

asio::awaitable<void> ControlLink::listen(std::shared_ptr<ControlLink> self, Fd listener) {
  stream_protocol::acceptor acceptor(self->executor_, stream_protocol(), listener.release());
  while (true) {
    auto [error, peer] = co_await acceptor.async_accept(kQuietly);
    if (error) {
      base::log(base::Level::kError, "accept failed", {{"reason", error.message()}});
      co_await sleepFor(self->executor_, kAcceptPause);
      continue;
    }
    if (const auto admitted = self->admit(peer); !admitted) {
      base::log(base::Level::kWarn, "connection refused", {{"reason", admitted.error().message}});
      continue;
    }
    self->connection_ = std::make_shared<net::FrameConnection>(net::unixStream(std::move(peer)));
    async::spawn(self->executor_, serve(self));
  }
}

Result<> ControlLink::admit(stream_protocol::socket& peer) {
  TRY(checkPeerUser(peer.native_handle(), uid_));
  if (connection_) return fail(Code::kConflict, "another control plane is connected");
  plans_.trust(TRY(key_()));
  return {};
}

asio::awaitable<void> ControlLink::serve(std::shared_ptr<ControlLink> self) {
  const auto connection = self->connection_;
  base::log(base::Level::kInfo, "control plane connected");
  self->greet();
  async::spawn(self->executor_, settle(self, self->round_));
  Result<> result;
  while (result) {
    auto frame = co_await connection->read(wire::egress::kMaxPayload);
    result = frame ? self->take(*frame) : std::unexpected(std::move(frame).error());
    if (frame && isSecret(*frame)) wipe(frame->payload);
  }
  connection->close();
  self->connection_.reset();
  base::log(base::Level::kWarn, "control plane disconnected", {{"reason", result.error().message}});
}

// Sends the number of the last batch, then everything that the ledger may not have yet.
void ControlLink::greet() {
  ++round_;
  plans_.beginRound();
  record_.stop(false);
  sent_ = 0;
  post(FromEgress::kHello, 0, numberBytes(record_.last()));
  sendKept();
  sendWanted();
}

asio::awaitable<void> ControlLink::settle(std::shared_ptr<ControlLink> self, uint64_t round) {
  co_await sleepFor(self->executor_, self->settings_.settle);
  if (self->connection_ && self->round_ == round) self->plans_.endRound();
}

Result<> ControlLink::take(const Frame& frame) {
  wire::Reader reader(frame.payload);
  switch (static_cast<ToEgress>(frame.type)) {
    case ToEgress::kPlan:
      return takePlan(frame);
    case ToEgress::kSecrets:
      return takeSecrets(frame);
    case ToEgress::kForget:
      plans_.forget(frame.payload);
      return {};
    case ToEgress::kUse:
      answerUse(frame);
      return {};
    case ToEgress::kTaken: {
      const uint64_t number = reader.u64();
      if (!reader.done()) return malformed("the number of a batch");
      record_.taken(number);
      return {};
    }
    case ToEgress::kStop: {
      const uint8_t stopped = reader.u8();
      if (!reader.done() || stopped > 1) return malformed("the state of the ledger");
      record_.stop(stopped == 1);
      return {};
    }
    default:
      return malformed("type " + std::to_string(frame.type) + " is not known");
  }
}

// A refused plan is an answer; a malformed message ends the connection.
Result<> ControlLink::takePlan(const Frame& frame) {
  const model::SignedPlan plan = TRY(wire::egress::decodeSignedPlan(frame.payload));
  auto accepted = plans_.accept(plan);
  if (!accepted) {
    base::log(base::Level::kWarn, "plan refused", {{"reason", accepted.error().message}});
    post(FromEgress::kFailed, frame.channel, wire::encodeError(accepted.error()));
    return {};
  }
  post(FromEgress::kPlanned, frame.channel, *std::move(accepted));
  return {};
}

Result<> ControlLink::takeSecrets(const Frame& frame) {
  auto secrets = TRY(wire::egress::decodeSecrets(frame.payload));
  auto values = intoVault(std::move(secrets.values));
  if (values) {
    plans_.learn(secrets.permit, *std::move(values));
  } else {  // requests that use the secrets are refused
    base::log(base::Level::kError, "secrets refused", {{"reason", values.error().message}});
  }
  return {};
}

void ControlLink::answerUse(const Frame& frame) {
  const auto permit = plans_.find(frame.payload);
  if (!permit) {
    const Error error{
        Code::kNotFound, "asking for the use of a network: the permit is not known", {}, 0};
    return post(FromEgress::kFailed, frame.channel, wire::encodeError(error));
  }
  permit->catchUp();
  post(FromEgress::kUsed, frame.channel, base::toJson(model::toJsonObject(permit->use())));
}

asio::awaitable<void> ControlLink::sendBatches(std::shared_ptr<ControlLink> self) {
  while (true) {
    co_await sleepFor(self->executor_, kBatchPause);
    self->record_.close();
    self->sendKept();
  }
}

void ControlLink::sendKept() {
  if (!connection_) return;
  for (const wire::egress::Batch& batch : record_.kept()) {
    if (batch.number <= sent_) continue;
    post(FromEgress::kAttempts, 0, wire::egress::encodeBatch(batch));
    sent_ = batch.number;
  }
}

void ControlLink::want(wire::egress::Wanted wanted) {
  if (wanted_.size() >= kMostWanted) return;
  wanted_.push_back(std::move(wanted));
  sendWanted();
}

void ControlLink::sendWanted() {
  if (!connection_) return;
  for (const wire::egress::Wanted& wanted : std::exchange(wanted_, {}))
    post(FromEgress::kWanted, 0, wire::egress::encodeWanted(wanted));
}

void ControlLink::post(FromEgress type, uint32_t channel, std::string payload) {
  connection_->post(static_cast<uint16_t>(type), channel, std::move(payload));
}

}  // namespace cloister::egress
