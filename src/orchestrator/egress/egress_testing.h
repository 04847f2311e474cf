// SPDX-License-Identifier: Apache-2.0
// For tests: the other end of an EgressLink, which says what the test tells it to say.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/run_task.h"
#include "async/spawn.h"
#include "base/clock.h"
#include "net/frame_connection.h"
#include "net/stream_testing.h"
#include "orchestrator/core/task.h"
#include "wire/codec.h"
#include "wire/egress.h"
#include "wire/node.h"

namespace cloister::orchestrator {

// Handlers can be dropped while the objects that they use still exist.
struct EgressIo : boost::asio::io_context {
  using boost::asio::execution_context::shutdown;
  using boost::asio::io_context::io_context;
};

// A cloister-egress that answers each plan, unless told otherwise, and remembers what it heard.
class ScriptedEgress {
 public:
  using Stream = net::FrameConnection::Stream;
  using FromEgress = wire::egress::FromEgress;
  using ToEgress = wire::egress::ToEgress;

  explicit ScriptedEgress(EgressIo& io) : io_(io) {}

  // A new connection; the result is the control plane's end.
  Stream connect(uint64_t last_batch = 0) {
    auto [ours, theirs] = net::unixPair(io_.get_executor());
    serve(std::move(theirs), last_batch);
    return std::move(ours);
  }
  void serve(Stream theirs, uint64_t last_batch = 0) {
    connection_ = std::make_shared<net::FrameConnection>(std::move(theirs));
    say(FromEgress::kHello, 0, number(last_batch));
    async::spawn(io_.get_executor(), hearAll(*this, connection_));
  }
  void hangUp() { connection_->close(); }
  void say(FromEgress type, uint32_t channel, std::string payload = {}) {
    connection_->post(static_cast<uint16_t>(type), channel, std::move(payload));
  }
  void report(const wire::egress::Batch& batch) {
    say(FromEgress::kAttempts, 0, wire::egress::encodeBatch(batch));
  }

  // Runs ready handlers until `done`, for some seconds at most.
  template <class Condition>
  void until(Condition done) {
    const auto end = base::monotonicNow() + std::chrono::seconds(20);
    io_.restart();
    while (!done()) {
      ASSERT_LT(base::monotonicNow(), end) << "it did not happen";
      io_.run_one_for(std::chrono::milliseconds(50));
    }
  }

  static std::string number(uint64_t value) {
    std::string payload(sizeof value, '\0');
    wire::Writer(payload.data(), payload.size()).u64(value);
    return payload;
  }

  bool silent = false;                    // answers nothing
  std::optional<Error> refusal;           // of the next plans
  model::NetworkUse use;                  // its answer to kUse
  std::vector<model::NetworkPlan> plans;  // heard, in their order
  std::vector<model::SignedPlan> signed_plans;
  std::string certificate;                     // in its answers to plans
  std::vector<wire::egress::Secrets> secrets;  // heard, in their order
  std::vector<size_t> secrets_before;          // how many plans were heard before each
  std::vector<std::string> forgotten;
  std::vector<uint64_t> taken;
  std::vector<bool> stops;

 private:
  static Task<void> hearAll(ScriptedEgress& self, std::shared_ptr<net::FrameConnection> from) {
    for (;;) {
      auto frame = co_await from->read(wire::egress::kMaxPayload);
      if (!frame) co_return;
      self.hear(*frame);
    }
  }

  void hear(const net::Frame& frame) {
    wire::Reader reader(frame.payload);
    switch (static_cast<ToEgress>(frame.type)) {
      case ToEgress::kPlan: {
        auto made = wire::egress::decodeSignedPlan(frame.payload);
        ASSERT_TRUE(made);
        auto plan = model::decodePlan(made->encoded);
        ASSERT_TRUE(plan) << plan.error().message;
        plans.push_back(*std::move(plan));
        signed_plans.push_back(*std::move(made));
        if (silent) return;
        if (refusal) return say(FromEgress::kFailed, frame.channel, wire::encodeError(*refusal));
        return say(FromEgress::kPlanned, frame.channel, certificate);
      }
      case ToEgress::kSecrets: {
        auto got = wire::egress::decodeSecrets(frame.payload);
        ASSERT_TRUE(got);
        secrets.push_back(*std::move(got));
        secrets_before.push_back(plans.size());
        return;
      }
      case ToEgress::kForget:
        return forgotten.push_back(frame.payload);
      case ToEgress::kUse:
        if (silent) return;
        return say(FromEgress::kUsed, frame.channel, base::toJson(model::toJsonObject(use)));
      case ToEgress::kTaken:
        return taken.push_back(reader.u64());
      case ToEgress::kStop:
        return stops.push_back(reader.u8() == 1);
    }
  }

  EgressIo& io_;
  std::shared_ptr<net::FrameConnection> connection_;
};

inline model::NetworkPlan planOf(const std::string& permit, const std::string& host = "a.test") {
  model::NetworkPlan plan;
  plan.permit = permit;
  plan.tier = "restricted";
  plan.tenant = "acme";
  plan.agent = "agent";
  plan.policy_id = "policy@1";
  model::PlanRule rule;
  rule.entry.name = host;
  rule.entry.ports = {443};
  rule.entry.protocol = model::Protocol::kTls;
  rule.rule = "web";
  plan.rules.push_back(std::move(rule));
  return plan;
}

inline wire::egress::Attempts attemptOf(const std::string& permit, const std::string& host,
                                        bool allowed = false) {
  wire::egress::Attempts attempt;
  attempt.permit = permit;
  attempt.plan_sha256 = std::string(64, 'a');
  attempt.host = host;
  attempt.port = 443;
  attempt.transport = "tcp";
  attempt.allowed = allowed;
  attempt.rule = allowed ? "web" : "";
  attempt.reason = allowed ? "" : "No rule names it.";
  attempt.at = 1'700'000'000'000'000;
  attempt.count = 2;
  attempt.bytes_in = 10;
  attempt.bytes_out = 5;
  return attempt;
}

}  // namespace cloister::orchestrator
