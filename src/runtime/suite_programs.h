// SPDX-License-Identifier: Apache-2.0
// The programs of runtime_suite.h and its observers.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

// The suite's programs, with their `args`.
enum class Program {
  kEcho,     // WORD: prints WORD and a newline on stdout
  kErr,      // WORD: the same on stderr
  kCat,      // stdin to stdout
  kEnv,      // the environment, a line each
  kExit,     // CODE
  kSegv,     // ends by SIGSEGV
  kShow,     // PATH: a file to stdout
  kWrite,    // PATH TEXT: makes a file
  kFlood,    // BYTES of 'x' on stdout
  kMix,      // COUNT numbers, a line each, in turn on stdout and stderr
  kSleep,    // MS
  kMemory,   // BYTES of memory
  kSpin,     // MS of processor time
  kFork,     // COUNT processes at once
  kDisk,     // BYTES into a file
  kMissing,  // a missing program
};

// Skips a suite's tests if the harness has `std::string absent()` and the result, the reason for
// the absence of its runtime on this machine, is not "".
template <class Harness>
class SuiteOf : public testing::Test {
 protected:
  void SetUp() override {
    if constexpr (requires { harness_.absent(); }) {
      if (const std::string why = harness_.absent(); !why.empty()) GTEST_SKIP() << why;
    }
  }

  Harness harness_;
};

// The programs as commands of a POSIX shell and its tools.
inline std::vector<std::string> shellArgv(Program program, const std::vector<std::string>& args) {
  static const std::map<Program, std::string> kScripts = {
      {Program::kEcho, "echo \"$1\""},
      {Program::kErr, "echo \"$1\" >&2"},
      {Program::kCat, "cat"},
      {Program::kEnv, "env"},
      {Program::kExit, "exit \"$1\""},
      {Program::kSegv, "kill -SEGV $$"},
      {Program::kShow, "cat \"$1\""},
      {Program::kWrite, "printf %s \"$2\" > \"$1\""},
      {Program::kFlood, "head -c \"$1\" /dev/zero | tr '\\0' x"},
      {Program::kMix,
       "i=0; while [ $i -lt $1 ]; do "
       "if [ $((i % 2)) = 0 ]; then echo $i; else echo $i >&2; fi; i=$((i + 1)); done"},
      {Program::kSleep, "sleep $(($1 / 1000)).$(printf %03d $(($1 % 1000)))"},
      {Program::kMemory, "head -c \"$1\" /dev/zero | tail | wc -c"},
      {Program::kSpin, "while :; do :; done"},
      {Program::kFork, "i=0; while [ $i -lt $1 ]; do sleep 5 & i=$((i + 1)); done; wait"},
      {Program::kDisk, "head -c \"$1\" /dev/zero > filling"},
  };
  if (program == Program::kMissing) return {"/usr/bin/no-such-program"};
  std::vector<std::string> argv = {"sh", "-c", kScripts.at(program), "sh"};
  argv.insert(argv.end(), args.begin(), args.end());
  return argv;
}

// Collects the output of an exec, slowly if asked.
class Collector : public ExecObserver {
 public:
  explicit Collector(boost::asio::any_io_executor executor) : executor_(std::move(executor)) {}

  void onStarted() override { started++; }
  Task<void> onOutput(model::Stream stream, std::string_view bytes) override {
    EXPECT_EQ(started, 1) << "output before the start";
    (stream == model::Stream::kStdout ? out : err) += bytes;
    if (on_output) on_output();
    if (delay.count() == 0) co_return;
    boost::asio::steady_timer timer(executor_, delay);
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
  Task<void> onFileBegin(std::string path, uint64_t size) override {
    EXPECT_FALSE(file) << "a file within a file";
    file = std::move(path);
    sizes[*file] = size;
    files[*file] = "";
    co_return;
  }
  Task<void> onFileData(std::string_view bytes) override {
    EXPECT_TRUE(file) << "bytes of no file";
    if (file) files[*file] += bytes;
    co_return;
  }
  Task<void> onFileEnd() override {
    EXPECT_TRUE(file) << "the end of no file";
    file.reset();
    co_return;
  }

  int started = 0;
  std::string out;
  std::string err;
  std::map<std::string, std::string> files;
  std::map<std::string, uint64_t> sizes;
  std::optional<std::string> file;
  Millis delay{0};                  // after each piece of output
  std::function<void()> on_output;  // at each piece

 private:
  boost::asio::any_io_executor executor_;
};

// The outcome's hit of a limit; nullptr if none.
inline const model::LimitHit* findHit(const model::Outcome& outcome, std::string_view limit) {
  const auto found = std::ranges::find(outcome.limits, limit, &model::LimitHit::limit);
  return found == outcome.limits.end() ? nullptr : &*found;
}

// Whether the info has the image's digest, or says that the image is not verified.
inline bool tellsItsImage(const SandboxInfo& info) {
  const bool unverified = std::ranges::count(info.weakened, model::kWeakerUnverified) > 0;
  return unverified ? info.image_digest.empty() : info.image_digest.starts_with("sha256:");
}

}  // namespace cloister::runtime
