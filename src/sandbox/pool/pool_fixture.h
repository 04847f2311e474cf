// SPDX-License-Identifier: Apache-2.0
// For tests: a pool over a host of its own, with real sandboxes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/file.h"
#include "sandbox/pool/pool.h"
#include "sandbox/testbed.h"

namespace cloister::runtime {

inline pid_t newestChild() {
  std::istringstream words(base::readFile("/proc/thread-self/children").value_or(""));
  pid_t child = 0;
  while (words >> child) {
  }
  return child;
}

class PoolTest : public testing::Test {
 protected:
  void SetUp() override { open(3, Millis{20'000}); }
  void TearDown() override { std::filesystem::remove_all(proc_); }

  void open(uint32_t max_sandboxes, Millis idle, uint32_t floor = 0) {
    ProcessConfig config = testbed::config();
    config.ready_floor = floor;
    config.pressure = {.spare_memory = 10, .cpu_pressure = 50, .cpus = 1, .proc = proc_};
    config.ready = 2;
    config.ready_idle = idle;
    config.max_sandboxes = max_sandboxes;
    config.spawn_patience = patience_;
    config.languages = {{"shell", {"/bin/sh", "main.sh"}}};
    auto host = ProcessHost::start(config);
    if (!host) GTEST_SKIP() << host.error().message;
    start(*std::move(host));
  }

  void start(std::shared_ptr<ProcessHost> host) {
    host_ = std::move(host);
    spawner_ = std::make_shared<PresentQueue>(io_.get_executor(), host_->root(),
                                              host_->config().spawn_patience);
    pool_ = std::make_shared<Pool>(io_.get_executor(), host_, spawner_);
  }

  // Lets the io_context run until `condition` holds, for a minute at most.
  bool until(const std::function<bool()>& condition) {
    const auto waited = [&]() -> Task<bool> {
      boost::asio::steady_timer pause(io_);
      for (int i = 0; i < 12'000; ++i) {
        if (condition()) co_return true;
        pause.expires_after(Millis{5});
        co_await pause.async_wait(boost::asio::use_awaitable);
      }
      co_return false;
    };
    return async::runTask(io_, waited());
  }

  std::shared_ptr<Live> claim(const model::Limits& limits, const std::string& key = "") {
    auto live = async::runTask(io_, pool_->claim(limits, {.key = key}));
    EXPECT_TRUE(live) << live.error().message;
    return live ? *live : nullptr;
  }

  Task<void> claimInto(std::vector<std::shared_ptr<Live>>& all) { return claimInto(all, *pool_); }
  Task<void> claimInto(std::vector<std::shared_ptr<Live>>& all, Pool& from) {
    auto live = co_await from.claim(limits_, {});
    EXPECT_TRUE(live) << live.error().message;
    all.push_back(live ? *live : nullptr);
  }

  void bury(const std::shared_ptr<Live>& live) { EXPECT_TRUE(async::runTask(io_, live->bury())); }

  // Limits that change the SandboxSpec, and so the kind.
  [[nodiscard]] static model::Limits anotherKind() {
    model::Limits limits;
    limits.open_files = 77;
    return limits;
  }

  [[nodiscard]] uint64_t served(model::Served how) const {
    return pool_->stats().served[static_cast<size_t>(how)];
  }

  // Claims twice, so that the second claim raises the target, and makes a ready sandbox.
  void makeOneReady() {
    bury(claim(limits_));
    bury(claim(limits_));
    pool_->refill();
    ASSERT_TRUE(until([&] { return !pool_->refilling(); }));
    ASSERT_EQ(pool_->ready(), 1U);
  }

  // The machine's state as seen by the pool.
  void memory(int available) {
    put("meminfo", "MemTotal: 100 kB\nMemAvailable: " + std::to_string(available) + " kB\n");
  }
  void runnable(int count) { put("loadavg", "1.0 1.0 1.0 " + std::to_string(count) + "/98 7\n"); }
  void put(const std::string& name, const std::string& text) {
    ASSERT_TRUE(base::makeDirs(proc_));
    ASSERT_TRUE(base::writeFileAtomic(proc_ + "/" + name, text, 0644));
  }

  Millis patience_{45'000};
  std::string proc_ = "/tmp/cloister-test-" + base::randomHex(8);
  boost::asio::io_context io_{1};
  std::shared_ptr<ProcessHost> host_;
  std::shared_ptr<PresentQueue> spawner_;
  std::shared_ptr<Pool> pool_;
  model::Limits limits_;
};

}  // namespace cloister::runtime
