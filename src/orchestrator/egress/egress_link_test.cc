// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/egress/egress_link.h"

#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include "base/id.h"
#include "net/unix_stream.h"
#include "orchestrator/egress/egress_testing.h"

namespace cloister::orchestrator {
namespace {

using wire::egress::Batch;

struct WatchedLink final : EgressLink::Watcher {
  Task<void> connected() override {
    connections++;
    co_return;
  }
  void disconnected() override { losses++; }
  Task<Result<>> record(Batch batch) override {
    if (full) {
      refused++;
      co_return fail(Code::kNoSpace, "the disk is full");
    }
    numbers.push_back(batch.number);
    co_return Result<>{};
  }
  void wanted(wire::egress::Wanted one) override { wants.push_back(std::move(one)); }
  uint64_t lastRecorded() override { return recorded_before; }
  void refusing(bool refuses) override { states.push_back(refuses); }

  bool full = false;
  uint64_t recorded_before = 0;  // by an earlier process
  int refused = 0;
  int connections = 0;
  int losses = 0;
  std::vector<uint64_t> numbers;
  std::vector<wire::egress::Wanted> wants;
  std::vector<bool> states;
};

class EgressLinkTest : public testing::Test {
 protected:
  EgressLinkTest() { link_->start(); }
  ~EgressLinkTest() override { io_.shutdown(); }

  void connect(uint64_t last_batch = 0) {
    async::spawn(io_.get_executor(), EgressLink::serve(link_, egress_.connect(last_batch)));
    egress_.until([&] { return link_->connected(); });
  }
  void loseConnection() {
    egress_.hangUp();
    egress_.until([&] { return !link_->connected(); });
  }
  static Batch batch(uint64_t number) {
    return {.number = number, .attempts = {attemptOf("permit_1", "a.test")}, .left_out = 0};
  }
  Result<std::string> plan() {
    return async::runTask(io_, EgressLink::plan(link_, {.encoded = model::encodePlan(planOf("p")),
                                                        .signature = std::string(64, 's')}));
  }

  EgressIo io_;
  ScriptedEgress egress_{io_};
  WatchedLink watcher_;
  std::shared_ptr<EgressLink> link_ = std::make_shared<EgressLink>(
      io_.get_executor(), static_cast<EgressLink::Watcher&>(watcher_),
      EgressLink::Terms{.answer = Millis(200), .connect = Millis(50), .retry = Millis(5)});
};

TEST_F(EgressLinkTest, SendsAPlanAndHearsThatItIsInForce) {
  connect();
  EXPECT_TRUE(plan());
  ASSERT_EQ(egress_.plans.size(), 1U);
  EXPECT_EQ(egress_.plans[0].permit, "p");
  EXPECT_EQ(watcher_.connections, 1);
}

TEST_F(EgressLinkTest, ReportsARefusedPlan) {
  connect();
  egress_.refusal = Error{Code::kConflict, "the generation is not higher", ""};
  const auto refused = plan();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
}

TEST_F(EgressLinkTest, SaysThatItIsNotConnected) {
  const auto refused = plan();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_TRUE(refused.error().message.contains("not connected"));
  EXPECT_TRUE(refused.error().message.contains("without a network are not affected"));
}

TEST_F(EgressLinkTest, GivesUpAProcessThatDoesNotAnswer) {
  connect();
  egress_.silent = true;
  const auto refused = plan();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_FALSE(link_->connected());
  EXPECT_EQ(watcher_.losses, 1);
}

TEST_F(EgressLinkTest, ReadsTheUseOfASandbox) {
  connect();
  egress_.use.connections = 3;
  egress_.use.bytes_in = 100;
  const auto use = async::runTask(io_, EgressLink::use(link_, "permit_1"));
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_EQ(*use, egress_.use);
}

TEST_F(EgressLinkTest, ForgetsAPlan) {
  connect();
  link_->forget("permit_1");
  egress_.until([&] { return !egress_.forgotten.empty(); });
  EXPECT_EQ(egress_.forgotten, std::vector<std::string>{"permit_1"});
}

TEST_F(EgressLinkTest, AcknowledgesABatchOnlyAfterItsRecord) {
  connect();
  watcher_.full = true;
  egress_.report(batch(1));
  egress_.until([&] { return watcher_.refused > 2 && !egress_.stops.empty(); });
  EXPECT_TRUE(egress_.taken.empty());
  EXPECT_EQ(egress_.stops, std::vector<bool>{true}) << "new connections are refused meanwhile";
  EXPECT_EQ(watcher_.states, std::vector<bool>{true});
  watcher_.full = false;
  egress_.until([&] { return egress_.stops.size() == 2; });
  EXPECT_EQ(egress_.stops, (std::vector<bool>{true, false}));
  EXPECT_EQ(egress_.taken, std::vector<uint64_t>{1});
  EXPECT_EQ(watcher_.numbers, std::vector<uint64_t>{1});
}

TEST_F(EgressLinkTest, RecordsARepeatedBatchOnce) {
  connect();
  egress_.report(batch(1));
  egress_.report(batch(2));
  egress_.until([&] { return egress_.taken.size() == 2; });
  loseConnection();
  connect(2);
  egress_.report(batch(2));
  egress_.report(batch(3));
  egress_.until([&] { return watcher_.numbers.size() == 3; });
  egress_.until([&] { return egress_.taken.back() == 3; });
  EXPECT_EQ(watcher_.numbers, (std::vector<uint64_t>{1, 2, 3}));
}

TEST_F(EgressLinkTest, RecordsABatchOnceAlsoAfterACrash) {
  watcher_.recorded_before = 2;
  connect(3);
  egress_.until([&] { return !egress_.taken.empty(); });
  EXPECT_EQ(egress_.taken, std::vector<uint64_t>{2}) << "the ledger has these";
  for (uint64_t number = 1; number <= 3; ++number)
    egress_.report(batch(number));
  egress_.until([&] { return egress_.taken.back() == 3; });
  EXPECT_EQ(watcher_.numbers, std::vector<uint64_t>{3});
}

// The clock was set back before the start of cloister-egress.
TEST_F(EgressLinkTest, AHigherNumberOfTheLedgerHidesNoBatch) {
  watcher_.recorded_before = 900;
  connect(3);
  egress_.report(batch(3));
  egress_.until([&] { return !egress_.taken.empty(); });
  EXPECT_EQ(watcher_.numbers, std::vector<uint64_t>{3});
}

TEST_F(EgressLinkTest, RecordsTheBatchesOfAnotherProcess) {
  connect(7);
  egress_.report(batch(8));
  egress_.until([&] { return watcher_.numbers.size() == 1; });
  loseConnection();
  connect(0);  // its numbers begin again
  egress_.report(batch(1));
  egress_.until([&] { return watcher_.numbers.size() == 2; });
  EXPECT_EQ(watcher_.numbers, (std::vector<uint64_t>{8, 1}));
}

TEST_F(EgressLinkTest, SaysAgainThatTheLedgerRefuses) {
  connect();
  link_->ledgerAccepts(false);
  egress_.until([&] { return egress_.stops.size() == 1; });
  loseConnection();
  connect();
  egress_.until([&] { return egress_.stops.size() == 2; });
  EXPECT_EQ(egress_.stops, (std::vector<bool>{true, true}));
  link_->ledgerAccepts(true);
  egress_.until([&] { return egress_.stops.size() == 3; });
  EXPECT_FALSE(egress_.stops.back());
}

// A bounded number of batches waits; the others are repeated by cloister-egress.
TEST_F(EgressLinkTest, HasWhatItDroppedRepeated) {
  constexpr uint64_t kMany = 100;
  connect();
  watcher_.full = true;
  for (uint64_t number = 1; number <= kMany; number++)
    egress_.report(batch(number));
  egress_.until([&] { return watcher_.refused > 2; });
  egress_.say(wire::egress::FromEgress::kWanted, 0,
              wire::egress::encodeWanted({.permit = "p",
                                          .host = "a.test",
                                          .port = 443,
                                          .protocol = "tls",
                                          .rule = "",
                                          .program = ""}));
  egress_.until([&] { return !watcher_.wants.empty(); });  // all batches have arrived
  watcher_.full = false;
  egress_.until([&] { return !link_->connected(); });
  const size_t kept = watcher_.numbers.size();
  EXPECT_LT(kept, kMany);
  connect(kMany);
  for (uint64_t number = kept + 1; number <= kMany; number++)
    egress_.report(batch(number));
  egress_.until([&] { return watcher_.numbers.size() == kMany; });
  for (uint64_t number = 1; number <= kMany; number++)
    EXPECT_EQ(watcher_.numbers[number - 1], number);
}

TEST_F(EgressLinkTest, PassesOnWhatIsWanted) {
  connect();
  egress_.say(wire::egress::FromEgress::kWanted, 0,
              wire::egress::encodeWanted({.permit = "permit_1",
                                          .host = "a.test",
                                          .port = 443,
                                          .protocol = "tls",
                                          .rule = "web",
                                          .program = "curl",
                                          .waits = true}));
  egress_.until([&] { return !watcher_.wants.empty(); });
  EXPECT_EQ(watcher_.wants[0].host, "a.test");
  EXPECT_TRUE(watcher_.wants[0].waits);
}

TEST_F(EgressLinkTest, EndsAConnectionThatBreaksTheProtocol) {
  using wire::egress::FromEgress;
  const std::vector<std::pair<FromEgress, std::string>> lies = {
      {FromEgress::kPlanned, ""},                       // nothing was asked
      {FromEgress::kAttempts, "no batch"},              // unreadable
      {FromEgress::kWanted, "nothing"},                 // unreadable
      {FromEgress::kHello, ScriptedEgress::number(1)},  // twice
      {static_cast<FromEgress>(999), ""},               // unknown
  };
  for (const auto& [type, payload] : lies) {
    connect();
    egress_.say(type, type == FromEgress::kPlanned ? 5 : 0, payload);
    egress_.until([&] { return !link_->connected(); });
  }
  EXPECT_EQ(watcher_.losses, static_cast<int>(lies.size()));
}

TEST_F(EgressLinkTest, WaitsShortlyForAConnection) {
  std::optional<Result<std::string>> sent;
  async::spawn(
      io_.get_executor(),
      [](std::shared_ptr<EgressLink> link, std::optional<Result<std::string>>& into) -> Task<void> {
        into = co_await EgressLink::plan(
            link, {.encoded = model::encodePlan(planOf("p")), .signature = std::string(64, 's')});
      }(link_, sent));
  io_.poll();
  EXPECT_FALSE(sent);
  connect();
  egress_.until([&] { return sent.has_value(); });
  EXPECT_TRUE(*sent);
}

TEST_F(EgressLinkTest, ConnectsAgainByItself) {
  using boost::asio::local::stream_protocol;
  const std::string path = "/tmp/cloister-test-" + base::randomHex(8);
  stream_protocol::acceptor acceptor(io_, stream_protocol::endpoint(path));
  int accepted = 0;
  std::function<void()> accept = [&] {
    acceptor.async_accept(
        [&](const boost::system::error_code& error, stream_protocol::socket peer) {
          if (error) return;
          // The first one is refused, as while another control plane is connected.
          if (++accepted > 1) egress_.serve(net::unixStream(std::move(peer)));
          accept();
        });
  };
  accept();
  async::spawn(io_.get_executor(), EgressLink::keepConnected(link_, path));
  egress_.until([&] { return link_->connected(); });
  EXPECT_EQ(accepted, 2);
  EXPECT_TRUE(plan());
  loseConnection();
  egress_.until([&] { return link_->connected(); });
  EXPECT_EQ(accepted, 3);
  acceptor.close();
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace cloister::orchestrator
