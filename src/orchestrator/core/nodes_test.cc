// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/core/nodes.h"

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>

#include "runtime/fake/fake_runtime.h"

namespace cloister::orchestrator {
namespace {

using testing::ElementsAre;

class NotingWatcher final : public Nodes::Watcher {
 public:
  NotingWatcher(std::string name, std::vector<std::string>& heard)
      : name_(std::move(name)), heard_(heard) {}
  void nodeCame() override { heard_.push_back(name_ + " came"); }
  void nodeLost() override { heard_.push_back(name_ + " lost"); }

 private:
  std::string name_;
  std::vector<std::string>& heard_;
};

class NodesTest : public testing::Test {
 protected:
  void connect() {
    NodeState state{.runtime = &runtime_, .offer = {}};
    state.offer.max_sandboxes = 4;
    state.offer.runtimes = {"process", "gvisor"};
    nodes_.set(std::move(state));
  }

  boost::asio::io_context io_;
  runtime::FakeRuntime runtime_{io_.get_executor()};
  Places places_{{}};
  Nodes nodes_{places_};
  std::vector<std::string> heard_;
};

TEST_F(NodesTest, ALostNodeHasNoCapacityAndKeepsItsRuntimes) {
  EXPECT_FALSE(nodes_.connected());
  connect();
  EXPECT_TRUE(nodes_.connected());
  EXPECT_EQ(places_.concurrency(), 4U);
  nodes_.set({});
  EXPECT_FALSE(nodes_.connected());
  EXPECT_EQ(places_.concurrency(), 0U);
  EXPECT_THAT(nodes_.offer().runtimes, ElementsAre("process", "gvisor"));
}

TEST_F(NodesTest, WhoWatchesLastIsToldFirst) {
  const auto runs = std::make_shared<NotingWatcher>("runs", heard_);
  auto sessions = std::make_shared<NotingWatcher>("sessions", heard_);
  nodes_.watch(runs);
  nodes_.watch(sessions);
  connect();
  nodes_.set({});
  EXPECT_THAT(heard_, ElementsAre("sessions came", "runs came", "sessions lost", "runs lost"));
  heard_.clear();
  sessions.reset();
  connect();
  EXPECT_THAT(heard_, ElementsAre("runs came")) << "one that has gone is not told";
}

}  // namespace
}  // namespace cloister::orchestrator
