// SPDX-License-Identifier: Apache-2.0
// A program of a session, while the session's workspace is held for another program.
#include "orchestrator/runs/host.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include "async/signal.h"
#include "async/spawn.h"
#include "orchestrator/guard/agent_guard.h"

namespace cloister::orchestrator {
namespace {

constexpr std::string_view kDone = "done";

// Calls received by the node.
struct Told {
  explicit Told(const boost::asio::any_io_executor& executor) : changed(executor) {}
  int opened = 0;
  int gone = 0;
  bool starts = true;  // as soon as allowed
  bool ends = true;    // as soon as started
  async::Signal changed;
};

class OneExec final : public runtime::Exec {
 public:
  explicit OneExec(Told& told) : told_(told) {}
  Task<Result<model::Outcome>> run(runtime::ExecObserver& observer) override {
    ++told_.gone;
    while (!told_.starts)
      co_await told_.changed.wait();
    observer.onStarted();
    while (!told_.ends)
      co_await told_.changed.wait();
    co_return model::Outcome{};
  }
  void cancel() override {}
  Task<Result<>> input(std::string /*bytes*/) override { co_return Result<>{}; }
  Result<> signal(int /*number*/) override { return {}; }
  Result<> resize(model::TerminalSize /*size*/) override { return {}; }

 private:
  Told& told_;
};

class OneSandbox final : public runtime::Sandbox {
 public:
  explicit OneSandbox(Told& told) : told_(told) {}
  [[nodiscard]] const runtime::SandboxInfo& info() const override { return info_; }
  Task<Result<model::Outcome>> exec(const model::ExecSpec& /*spec*/,
                                    runtime::ExecObserver& /*observer*/) override {
    co_return model::Outcome{};
  }
  Task<Result<std::unique_ptr<runtime::Exec>>> open(const model::SignedPermit& /*permit*/,
                                                    const model::ExecSpec& /*spec*/) override {
    ++told_.opened;
    co_return std::make_unique<OneExec>(told_);
  }
  void cancel() override {}
  Task<Result<>> teardown() override { co_return Result<>{}; }

 private:
  Told& told_;
  runtime::SandboxInfo info_;
};

struct OneHome final : Home {
  OneHome(const boost::asio::any_io_executor& executor, Told& told)
      : changed(executor), box(std::make_shared<OneSandbox>(told)) {}

  [[nodiscard]] const std::string& id() const override { return name; }
  [[nodiscard]] const std::string& runtimeName() const override { return name; }
  [[nodiscard]] Within within() const override { return {who, nullptr}; }
  Result<> count() override { return {}; }
  void uncount() override {}
  Result<> admit() override { return {}; }
  void enter() override {}
  void leave() override {}
  void visit(const model::Principal& /*who*/) override {}
  [[nodiscard]] std::shared_ptr<runtime::Sandbox> sandbox() const override { return box; }
  [[nodiscard]] Cause cause() const override { return Cause::kNone; }
  [[nodiscard]] base::Monotonic giveUp() const override { return base::Monotonic::max(); }
  [[nodiscard]] Result<> notHeld() const override {
    if (!held) return {};
    return fail(Code::kUnavailable, "held");
  }
  Task<std::shared_ptr<void>> unheld(std::function<bool()> over) override {
    while (held && !over())
      co_await changed.wait();
    if (over()) co_return nullptr;
    ++opening;
    co_return std::shared_ptr<void>(&opening, [this](void*) { --opening; });
  }
  void wake() override { changed.notify(); }
  Task<void> ended(base::Monotonic /*deadline*/) override { co_return; }
  void tell(const model::Execution& /*execution*/) override {}
  [[nodiscard]] int64_t imageSince() const override { return 0; }
  void addProcessorTime(uint64_t /*cpu_ms*/) override {}
  uint64_t chargeProgram(uint64_t cpu_ms) override { return cpu_ms; }

  void hold(bool whether) {
    held = whether;
    wake();
  }

  std::string name = "ses_test";
  model::Principal who;
  bool held = false;
  int opening = 0;
  async::Signal changed;
  std::shared_ptr<OneSandbox> box;
};

class SessionHostTest : public testing::Test, public runtime::ExecObserver {
 protected:
  void onStarted() override {}
  Task<void> onOutput(model::Stream /*stream*/, std::string_view /*bytes*/) override { co_return; }
  Task<void> onFileBegin(std::string /*path*/, uint64_t /*size*/) override { co_return; }
  Task<void> onFileData(std::string_view /*bytes*/) override { co_return; }
  Task<void> onFileEnd() override { co_return; }

  void settle() {
    io_.restart();
    while (io_.poll_one() > 0) {
    }
  }
  void prepare(Host& host) {
    async::spawn(io_.get_executor(), [](Host& of, SessionHostTest& test) -> Task<void> {
      const auto info = co_await of.prepare({}, test.spec_);
      test.prepared_ = info ? kDone : base::codeName(info.error().code);
    }(host, *this));
    settle();
  }
  void run(Host& host) {
    async::spawn(io_.get_executor(), [](Host& of, SessionHostTest& test) -> Task<void> {
      const auto outcome = co_await of.run(test.spec_, test);
      test.ran_ = outcome ? kDone : base::codeName(outcome.error().code);
    }(host, *this));
    settle();
  }
  std::unique_ptr<Host> host(WhenHeld when_held = {}) {
    return makeSessionHost(io_.get_executor(), home_, std::move(when_held));
  }

  boost::asio::io_context io_;
  Told told_{io_.get_executor()};
  std::shared_ptr<OneHome> home_ = std::make_shared<OneHome>(io_.get_executor(), told_);
  model::ExecSpec spec_;
  std::string prepared_;  // "" until known
  std::string ran_;
};

// Between prepare and start lie the ledger's commit, other cells, and work for artifacts.
TEST_F(SessionHostTest, OnePreparedBeforeIsNotStartedWhileTheWorkspaceIsHeld) {
  const auto one = host();
  prepare(*one);
  EXPECT_EQ(prepared_, kDone);
  home_->hold(true);
  run(*one);
  EXPECT_EQ(told_.gone, 0);
  home_->hold(false);
  settle();
  EXPECT_EQ(told_.gone, 1);
  EXPECT_EQ(ran_, kDone);
}

TEST_F(SessionHostTest, ItIsNotHeldBeforeWhatWasToldToStartHasStarted) {
  const auto one = host();
  prepare(*one);
  EXPECT_EQ(home_->opening, 0);
  told_.starts = told_.ends = false;
  run(*one);
  EXPECT_EQ(told_.gone, 1);
  EXPECT_EQ(home_->opening, 1);
  told_.starts = true;
  told_.changed.notify();
  settle();
  EXPECT_EQ(home_->opening, 0);
  EXPECT_EQ(ran_, "") << "it goes on";
  told_.ends = true;
  told_.changed.notify();
  settle();
  EXPECT_EQ(ran_, kDone);
}

TEST_F(SessionHostTest, WhatWaitsCanBeCancelled) {
  const auto early = host();
  home_->hold(true);
  prepare(*early);
  EXPECT_EQ(prepared_, "");
  early->cancel();
  settle();
  EXPECT_EQ(prepared_, base::codeName(Code::kConflict));
  home_->hold(false);
  const auto late = host();
  prepare(*late);
  home_->hold(true);
  run(*late);
  EXPECT_EQ(ran_, "");
  late->cancel();
  settle();
  EXPECT_EQ(ran_, base::codeName(Code::kConflict));
  EXPECT_EQ(told_.gone, 0);
  bool over = false;
  const auto third = host({.waits = true, .over = [&over] { return over; }});
  prepared_.clear();
  prepare(*third);
  EXPECT_EQ(prepared_, "");
  over = true;
  home_->wake();
  settle();
  EXPECT_EQ(prepared_, base::codeName(Code::kConflict));
}

TEST_F(SessionHostTest, ARequestForFilesFailsAtOnce) {
  const auto early = host({.waits = false});
  home_->hold(true);
  prepare(*early);
  EXPECT_EQ(prepared_, base::codeName(Code::kUnavailable));
  home_->hold(false);
  const auto late = host({.waits = false});
  prepare(*late);
  home_->hold(true);
  run(*late);
  EXPECT_EQ(ran_, base::codeName(Code::kUnavailable));
  EXPECT_EQ(told_.gone, 0);
}

TEST_F(SessionHostTest, TheApprovedOnePasses) {
  const auto one = host();
  one->pass();
  home_->hold(true);
  prepare(*one);
  run(*one);
  EXPECT_EQ(ran_, kDone);
  EXPECT_EQ(told_.gone, 1);
}

}  // namespace
}  // namespace cloister::orchestrator
