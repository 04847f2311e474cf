// SPDX-License-Identifier: Apache-2.0
// The conformance suite of runtimes that keep the memory of sessions (wire/files.h, `checkpoint`),
// for GoogleTest, with the harness of runtime_suite.h and real programs:
//   INSTANTIATE_TYPED_TEST_SUITE_P(Gvisor, MemorySuite, GvisorHarness);
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "runtime/session_suite.h"

namespace cloister::runtime {

template <class Harness>
class MemorySuite : public SessionSuite<Harness> {
 protected:
  using Base = SessionSuite<Harness>;
  using Running = typename Base::Running;

  std::unique_ptr<Running> shell(const std::string& script) {
    auto made = this->spec(Program::kEcho);
    made.run.argv = {"sh", "-c", script};
    return this->start(made);
  }
  std::string said(const std::string& script) {
    const auto running = shell(script);
    if (!running) return async::runTask(this->harness_.io(), this->session_->died()).message;
    const model::Outcome outcome = this->finish(*running);
    EXPECT_EQ(outcome.end, model::End::kExited) << outcome.message;
    EXPECT_EQ(outcome.exit_code, 0) << running->seen.err;
    return running->seen.out;
  }

  Result<std::string> checkpoint() {
    const auto running = this->start(request("checkpoint"));
    if (!running) return fail(Code::kInternal, "not opened");
    this->runUntil([&] { return running->outcome.has_value(); });
    if (!*running->outcome) return std::unexpected(running->outcome->error());
    EXPECT_EQ((*running->outcome)->exit_code, 0);
    return std::move(running->seen.out);
  }

  // Replaces the current session by a session resumed from `archive`.
  Result<> resume(const std::string& archive) {
    another();
    auto asked = request("resume");
    asked.keep_input = true;
    const auto running = this->start(asked);
    if (!running) return fail(Code::kInternal, "not opened");
    for (size_t at = 0; at < archive.size(); at += kPiece) {
      auto exec = running->exec->input(archive.substr(at, kPiece));
      if (!async::runTask(this->harness_.io(), std::move(exec))) break;
    }
    std::ignore = async::runTask(this->harness_.io(), running->exec->input(""));
    this->runUntil([&] { return running->outcome.has_value(); });
    if (!*running->outcome) return std::unexpected(running->outcome->error());
    EXPECT_EQ((*running->outcome)->exit_code, 0);
    return {};
  }

  void another() {
    others_.push_back(std::move(this->session_));
    auto made = async::runTask(this->harness_.io(),
                               this->harness_.runtime().provision(this->permit(nullptr)));
    ASSERT_TRUE(made) << made.error().message;
    this->session_ = *std::move(made);
  }

  void endOthers() {
    for (const auto& each : others_)
      EXPECT_TRUE(async::runTask(this->harness_.io(), each->teardown()));
    others_.clear();
  }
  void TearDown() override {
    endOthers();
    Base::TearDown();
  }

  model::ExecSpec request(const std::string& verb) {
    auto made = this->spec(Program::kEcho);
    made.run.argv = {verb};
    made.for_files = true;
    return made;
  }

  static constexpr size_t kPiece = size_t{256} << 10;
  std::vector<std::unique_ptr<Sandbox>> others_;
};

TYPED_TEST_SUITE_P(MemorySuite);

// Remembers a shell variable, files and a waiting loop.
constexpr char kRemembers[] =
    "read -r secret <given; rm given; echo there >/tmp/there;"
    "until [ -e go ]; do sleep 0.01; done; echo \"$secret\" >answer; mv answer answered";
constexpr char kAsks[] =
    "touch go; until [ -e answered ]; do sleep 0.01; done; cat answered /tmp/there";

TYPED_TEST_P(MemorySuite, GoesOnWhereItWas) {
  this->said("echo of-memory >given");
  const auto program = this->shell(kRemembers);
  ASSERT_TRUE(program);
  this->said("until [ -e /tmp/there ]; do sleep 0.01; done");
  const auto archive = this->checkpoint();
  ASSERT_TRUE(archive) << archive.error().message;

  EXPECT_EQ(this->said(kAsks), "of-memory\nthere\n") << "the session itself";
  EXPECT_EQ(this->finish(*program).end, model::End::kExited);
  for (int copy = 0; copy < 2; ++copy) {
    const auto resumed = this->resume(*archive);
    ASSERT_TRUE(resumed) << resumed.error().message;
    EXPECT_EQ(this->said("ls"), "") << "of that moment, not of a later one";
    EXPECT_EQ(this->said(kAsks), "of-memory\nthere\n") << "a copy";
  }
}

TYPED_TEST_P(MemorySuite, ACopyCanBeKeptToo) {
  this->said("echo of-memory >given");
  const auto program = this->shell(kRemembers);
  this->said("until [ -e /tmp/there ]; do sleep 0.01; done");
  for (int generation = 0; generation < 3; ++generation) {
    const auto archive = this->checkpoint();
    ASSERT_TRUE(archive) << archive.error().message;
    const auto resumed = this->resume(*archive);
    ASSERT_TRUE(resumed) << resumed.error().message;
  }
  EXPECT_EQ(this->said(kAsks), "of-memory\nthere\n");
  this->endOthers();
  this->runUntil([&] { return program->outcome.has_value(); });  // no client resumed the program
}

TYPED_TEST_P(MemorySuite, LosesNothingOfWhatIsSaidMeanwhile) {
  const auto program = this->shell("yes 0123456 | head -c 20000000; touch written");
  ASSERT_TRUE(program);
  this->runUntil([&] { return program->seen.out.size() > 100'000; });
  const auto archive = this->checkpoint();
  ASSERT_TRUE(archive) << archive.error().message;
  EXPECT_EQ(this->finish(*program).exit_code, 0);
  EXPECT_EQ(program->seen.out.size(), 20'000'000U);
  // In a copy the program has no reader, and continues.
  ASSERT_TRUE(this->resume(*archive));
  EXPECT_EQ(this->said("until [ -e written ]; do sleep 0.01; done; echo ended"), "ended\n");
}

TYPED_TEST_P(MemorySuite, InputEndsInACopy) {
  auto cat = this->spec(Program::kCat);
  cat.run.argv = {"sh", "-c", "cat >taken; mv taken all"};
  cat.keep_input = true;
  const auto program = this->start(cat);
  ASSERT_TRUE(program);
  ASSERT_TRUE(async::runTask(this->harness_.io(), program->exec->input("before")));
  this->said("until [ -s taken ]; do sleep 0.01; done");
  const auto archive = this->checkpoint();
  ASSERT_TRUE(archive) << archive.error().message;
  ASSERT_TRUE(async::runTask(this->harness_.io(), program->exec->input(" and after")));
  ASSERT_TRUE(async::runTask(this->harness_.io(), program->exec->input("")));
  EXPECT_EQ(this->finish(*program).exit_code, 0);
  EXPECT_EQ(this->said("cat all"), "before and after");
  ASSERT_TRUE(this->resume(*archive));
  EXPECT_EQ(this->said("until [ -e all ]; do sleep 0.01; done; cat all"), "before");
}

// The image is beside the memory, for a moment.
TYPED_TEST_P(MemorySuite, KeepsAMemoryThatIsNearlyFull) {
  const uint64_t most = model::Limits().memory_bytes >> 20;
  this->said("head -c " + std::to_string(most * 3 / 4) + "M /dev/urandom >/tmp/large");
  const std::string digest = this->said("sha256sum /tmp/large");
  const auto archive = this->checkpoint();
  ASSERT_TRUE(archive) << archive.error().message;
  ASSERT_TRUE(this->resume(*archive));
  EXPECT_EQ(this->said("sha256sum /tmp/large"), digest);
}

TYPED_TEST_P(MemorySuite, RefusesWhatIsBuiltInOtherwise) {
  const auto archive = this->checkpoint();
  ASSERT_TRUE(archive) << archive.error().message;
  this->limits_.disk_bytes = uint64_t{16} << 20;
  const auto resumed = this->resume(*archive);
  ASSERT_FALSE(resumed);
  EXPECT_EQ(resumed.error().code, Code::kConflict);
  EXPECT_THAT(resumed.error().message, testing::HasSubstr("its limits and walls is another"));
  EXPECT_EQ(this->said("echo alive"), "alive\n");
}

TYPED_TEST_P(MemorySuite, RefusesWhatIsNoImage) {
  const auto archive = this->checkpoint();
  ASSERT_TRUE(archive) << archive.error().message;
  std::string cut = archive->substr(0, archive->size() / 2);
  std::string other = *archive;
  other[other.find("kernel")] = 'K';
  for (const std::string& bad : {std::string(), std::string(2048, 'x'), cut, other})
    EXPECT_FALSE(this->resume(bad));
  EXPECT_EQ(this->said("echo alive"), "alive\n");
}

// As a compromised guest kernel could write: its own files with other bytes.
TYPED_TEST_P(MemorySuite, EndsWhatCannotGoOn) {
  const auto archive = this->checkpoint();
  ASSERT_TRUE(archive) << archive.error().message;
  std::string other = *archive;
  const size_t state = other.find("checkpoint.img");
  ASSERT_NE(state, std::string::npos);
  for (size_t at = state + 1024; at < state + 300'000 && at < other.size(); at += 64)
    other[at] = static_cast<char>(~other[at]);
  const auto resumed = this->resume(other);
  ASSERT_FALSE(resumed);
  EXPECT_NE(resumed.error().message, "");
}

TYPED_TEST_P(MemorySuite, RefusesWhereSomethingHasRun) {
  this->said("echo one");
  const auto refused = this->open(this->request("resume"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kConflict);
}

REGISTER_TYPED_TEST_SUITE_P(MemorySuite, GoesOnWhereItWas, ACopyCanBeKeptToo,
                            LosesNothingOfWhatIsSaidMeanwhile, InputEndsInACopy,
                            KeepsAMemoryThatIsNearlyFull, RefusesWhatIsBuiltInOtherwise,
                            RefusesWhatIsNoImage, EndsWhatCannotGoOn, RefusesWhereSomethingHasRun);

}  // namespace cloister::runtime
