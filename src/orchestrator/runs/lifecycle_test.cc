// SPDX-License-Identifier: Apache-2.0
// Runs during events: cancel, loss, restart, a full disk.
#include <algorithm>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>

#include "net/frame_connection.h"
#include "net/unix_stream.h"
#include "orchestrator/core/node_link.h"
#include "orchestrator/runs/service_fixture.h"
#include "store/rows/executions.h"
#include "wire/node.h"

namespace cloister::orchestrator {
namespace {

using model::Status;
using testing::ElementsAre;
using testing::HasSubstr;

TEST_F(ServiceTest, CancelsWhatWaits) {
  control_config_.concurrent = 1;
  open();
  const std::string holder = accepted({"hold"});
  runUntil([&] { return fake_->provisioned().size() == 1; });
  const std::string id = accepted({"echo", "x"});
  const auto cancelled = await(service_->cancel(principal(), id));
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->status, Status::kCancelled);
  EXPECT_EQ(cancelled->error->type, "CANCELLED");
  EXPECT_EQ(stored(id).status, Status::kCancelled);
  EXPECT_THAT(auditOf(id), ElementsAre("execution.accepted", "execution.cancel_requested",
                                       "execution.finished"));
  fake_->release();
  EXPECT_EQ(ended(holder).status, Status::kCompleted);
  EXPECT_THAT(fake_->provisioned(), ElementsAre(holder)) << "it was never started";
}

TEST_F(ServiceTest, CancelsWhatRuns) {
  open();
  const std::string id = accepted({"hold"});
  runUntil([&] { return fake_->provisioned().size() == 1; });
  ASSERT_TRUE(await(service_->cancel(principal(), id)));
  ASSERT_TRUE(await(service_->cancel(principal(), id)));
  const auto execution = ended(id);
  EXPECT_EQ(execution.status, Status::kCancelled);
  EXPECT_EQ(execution.error->type, "CANCELLED");
  EXPECT_THAT(auditOf(id), ElementsAre("execution.accepted", "execution.started",
                                       "execution.cancel_requested", "execution.finished"))
      << "asked twice, recorded once";
  const auto again = await(service_->cancel(principal(), id));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->status, Status::kCancelled);
  runUntil([&] { return metrics_.running == 0; });
  EXPECT_EQ(fake_->live(), 0U);
}

TEST_F(ServiceTest, ACancelAtAnyMomentLeavesOneTerminalState) {
  control_config_.concurrent = 2;
  open();
  std::vector<std::string> ids;
  for (int i = 0; i < 30; i++) {
    const std::string id = accepted({"echo", "x"});
    ids.push_back(id);
    for (int steps = 0; steps < i; steps++)
      io_->poll_one();
    ASSERT_TRUE(await(service_->cancel(principal(), id)));
  }
  for (const std::string& id : ids) {
    const auto status = ended(id).status;
    EXPECT_TRUE(status == Status::kCompleted || status == Status::kCancelled);
    EXPECT_EQ(stored(id).status, status);
    const auto actions = auditOf(id);
    EXPECT_EQ(std::ranges::count(actions, "execution.finished"), 1);
  }
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_F(ServiceTest, ALostNodeEndsWhatItRan) {
  open();
  const std::string id = accepted({"hold"});
  const auto log = *service_->log(principal(), id);
  runUntil([&] { return fake_->provisioned().size() == 1; });
  log->append(model::Stream::kStdout, "so far");
  control_->nodes.set({});
  const auto execution = ended(id);
  EXPECT_EQ(execution.status, Status::kFailed);
  EXPECT_EQ(execution.error->type, "NODE_LOST");
  EXPECT_TRUE(execution.error->retryable);
  EXPECT_EQ(execution.out.bytes, "so far") << "what had come is kept";
  EXPECT_FALSE(service_->ready());
}

TEST_F(ServiceTest, ALateResultIsRefused) {
  open();
  const std::string id = accepted({"hold"});
  runUntil([&] { return fake_->provisioned().size() == 1; });
  // Another owner of the record has ended the run meanwhile.
  auto ended_elsewhere = stored(id);
  ended_elsewhere.status = Status::kFailed;
  ended_elsewhere.error = model::RunError{"NODE_LOST", "lost", {}, true};
  bool written = false;
  store_->write(store::writing(store::updateExecution, ended_elsewhere,
                               {"execution.finished", id, principal(), {}}),
                [&](Result<void> result) {
                  EXPECT_TRUE(result);
                  boost::asio::post(*io_, [&] { written = true; });
                });
  runUntil([&] { return written; });
  fake_->release();
  const auto execution = ended(id);
  EXPECT_EQ(execution.status, Status::kFailed) << "the first terminal state stays";
  EXPECT_EQ(execution.error->type, "NODE_LOST");
  EXPECT_EQ(stored(id).status, Status::kFailed);
}

TEST_F(ServiceTest, ARestartEndsWhatRanAndResumesWhatWaited) {
  control_config_.concurrent = 1;
  open();
  const std::string ran = accepted({"hold"});
  runUntil([&] { return fake_->provisioned().size() == 1; });
  auto files = request({"show", "a.txt"});
  files.files.push_back({"a.txt", "kept over the restart", 0644});
  const auto waiting = await(service_->run(principal(), files, "key"));
  ASSERT_TRUE(waiting);
  close();

  open();
  const auto interrupted = ended(ran);
  EXPECT_EQ(interrupted.status, Status::kFailed);
  EXPECT_EQ(interrupted.error->type, "SERVER_RESTART");
  EXPECT_TRUE(interrupted.error->retryable);
  const auto resumed = ended(waiting->id);
  EXPECT_EQ(resumed.status, Status::kCompleted);
  EXPECT_EQ(resumed.out.bytes, "kept over the restart");
  EXPECT_THAT(fake_->provisioned(), ElementsAre(waiting->id)) << "what ran is not run again";
  const auto replay = await(service_->run(principal(), files, "key"));
  ASSERT_TRUE(replay);
  EXPECT_EQ(replay->id, waiting->id);
  EXPECT_TRUE(store_->mismatches(0, 10)->empty());
}

TEST_F(ServiceTest, PolicyIsAskedAgainAfterARestart) {
  open(false);
  const std::string id = accepted({"echo", "x"});
  close();
  policy_.set(
      *policy::parsePolicy("version: 1\nrules:\n  - {name: none, why: closed now, allow: false}\n",
                           "test", model::defaultBounds().max));
  open();
  const auto execution = ended(id);
  EXPECT_EQ(execution.status, Status::kDenied);
  EXPECT_THAT(execution.error->message, HasSubstr("closed now"));
  EXPECT_TRUE(fake_->provisioned().empty());
}

TEST_F(ServiceTest, DrainsWithoutLosingARecord) {
  control_config_.concurrent = 1;
  open();
  const std::string ran = accepted({"hold"});
  runUntil([&] { return fake_->provisioned().size() == 1; });
  const std::string waiting = accepted({"echo", "x"});
  await([](RunService& service) -> Task<bool> {
    co_await service.drain();
    co_return true;
  }(*service_));
  EXPECT_EQ(stored(ran).status, Status::kFailed);
  EXPECT_EQ(stored(ran).error->type, "SERVER_RESTART");
  EXPECT_EQ(stored(waiting).status, Status::kQueued) << "it runs after the next start";
  EXPECT_EQ(fake_->live(), 0U);
  const auto refused = run({"echo", "x"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnavailable);
  EXPECT_FALSE(service_->ready());
}

TEST_F(ServiceTest, WhatStopsWaitsForNoSandbox) {
  control_config_.concurrent = 2;
  open();
  fake_->holdProvisions(true);
  const std::string made = accepted({"echo", "x"});
  runUntil([&] { return service_->get(principal(), made)->status == Status::kRunning; });
  const auto began = base::monotonicNow();
  await([](RunService& service) -> Task<bool> {
    co_await service.drain();
    co_return true;
  }(*service_));
  EXPECT_LT(base::monotonicNow() - began, Millis(5'000));
  EXPECT_EQ(stored(made).status, Status::kFailed);
  EXPECT_EQ(stored(made).error->type, "SERVER_RESTART");
  fake_->holdProvisions(false);
  runUntil([&] { return fake_->provisioned().size() == 1 && fake_->live() == 0; });
  EXPECT_EQ(stored(made).error->type, "SERVER_RESTART")
      << "a sandbox that comes late starts nothing";
}

TEST_F(ServiceTest, AFullDiskRefusesRuns) {
  open();
  store_->full = true;
  const auto refused = run({"echo", "x"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kNoSpace);
  EXPECT_FALSE(service_->ready());
  EXPECT_EQ(metrics_.started_runs, 0);
  runUntil([&] { return fake_->live() == 0; });
  store_->full = false;
  EXPECT_TRUE(service_->ready());
  EXPECT_EQ(finished({"echo", "x"}).status, Status::kCompleted);
}

TEST_F(ServiceTest, AnEndIsNotToldBeforeItIsRecorded) {
  open();
  const std::string id = accepted({"hold"});
  runUntil([&] { return fake_->provisioned().size() == 1; });
  store_->full = true;
  fake_->release();
  runUntil([&] { return store_->refused >= 2; });
  EXPECT_EQ(service_->get(principal(), id)->status, Status::kRunning);
  const auto not_ready = service_->ready();
  ASSERT_FALSE(not_ready);
  EXPECT_EQ(metrics_.finished_runs, 0);
  store_->full = false;
  EXPECT_EQ(ended(id).status, Status::kCompleted);
  EXPECT_TRUE(service_->ready());
}

TEST_F(ServiceTest, ACancelWorksOnAFullDisk) {
  open();
  const std::string id = accepted({"hold"});
  runUntil([&] { return fake_->provisioned().size() == 1; });
  store_->full = true;
  ASSERT_TRUE(await(service_->cancel(principal(), id)));
  runUntil([&] { return store_->refused >= 2; });
  store_->full = false;
  EXPECT_EQ(ended(id).status, Status::kCancelled);
}

TEST_F(ServiceTest, TheLinkConnectsAndConnectsAgain) {
  namespace asio = boost::asio;
  open(false);
  const std::string path = dir_ + "/node.sock";
  asio::local::stream_protocol::acceptor acceptor(*io_,
                                                  asio::local::stream_protocol::endpoint(path));
  async::spawn(io_->get_executor(), keepConnected(control_->nodes, path));
  for (int round = 0; round < 2; round++) {
    auto peer = std::make_shared<net::FrameConnection>(
        net::unixStream(await([](auto& from) -> Task<asio::local::stream_protocol::socket> {
          co_return co_await from.async_accept(asio::use_awaitable);
        }(acceptor))));
    EXPECT_EQ(service_->node().runtime, nullptr);
    model::NodeOffer offer;
    offer.node = "node-" + std::to_string(round);
    offer.max_sandboxes = 1;
    peer->post(static_cast<uint16_t>(wire::FromNode::kOffer), 0, wire::encodeOffer(offer));
    runUntil([&] { return service_->node().runtime != nullptr; });
    EXPECT_EQ(service_->node().offer.node, offer.node);
    const std::string id = accepted({"echo", "x"});
    const auto asked = await(peer->read(1U << 20));
    ASSERT_TRUE(asked);
    EXPECT_EQ(asked->type, static_cast<uint16_t>(wire::ToNode::kProvision));
    EXPECT_EQ(stored(id).status, Status::kRunning) << "durable before the node has the permit";
    peer->close();
    EXPECT_EQ(ended(id).error->type, "NODE_LOST");
    runUntil([&] { return service_->node().runtime == nullptr; });
  }
}

}  // namespace
}  // namespace cloister::orchestrator
