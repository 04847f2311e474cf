// SPDX-License-Identifier: Apache-2.0
// A hostile runner: for any input, the node's Run comes to an outcome, keeps its observer's rules,
// and reads no bytes beyond the input. The first byte chooses between a run, and two programs
// beside each other in a session.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "sandbox/box/live.h"
#include "sandbox/box/run.h"
#include "sandbox/box/session_run.h"
#include "sandbox/box/switchboard.h"

#include "observer.h"

using namespace cloister;

namespace {

model::ExecSpec specOf(uint8_t shape) {
  model::ExecSpec spec;
  spec.files = {{"main.py", "print()", 0644}};
  spec.run = {{"python3", "main.py"}, std::chrono::milliseconds(1000)};
  spec.env = {"A=1"};
  if ((shape & 1) != 0) spec.compile = {{{"cc"}, std::chrono::milliseconds(1000)}};
  if ((shape & 2) != 0) spec.input = std::string(1000, 'i');
  if ((shape & 4) != 0) spec.artifacts.globs = {"**"};
  spec.artifacts.max_files = 2;
  spec.artifacts.max_bytes = 1000;
  return spec;
}

// A guest whose report about its program's limits is trusted.
class CountingGuest final : public runtime::Guest {
 public:
  [[nodiscard]] std::string name() const override { return "counting"; }
  [[nodiscard]] runtime::SpawnRequest::What what() const override { return {}; }
  [[nodiscard]] std::vector<std::string> weakened() const override { return {}; }
  [[nodiscard]] model::Finding finding() const override { return {}; }
  [[nodiscard]] uint32_t ready() const override { return 0; }
  [[nodiscard]] bool counts() const override { return true; }
  [[nodiscard]] std::string noNetwork() const override { return "a guest of frames alone"; }
  void adjust(const model::Limits& /*limits*/, runtime::SandboxSpec& /*spec*/,
              linux::CgroupLimits& /*cgroup*/) const override {}
  [[nodiscard]] Result<std::vector<Fd>> files(const runtime::SandboxSpec& /*spec*/,
                                              const std::string& /*walls*/) const override {
    return std::vector<Fd>();
  }
  [[nodiscard]] uint32_t fileCount() const override { return 0; }
  void describe(const runtime::SandboxSpec& /*spec*/, base::json::object& /*plan*/) const override {
  }
};

void expectOutcome(const Result<model::Outcome>& outcome) {
  REQUIRE(outcome);
  REQUIRE(outcome->end >= model::End::kExited && outcome->end <= model::End::kStartFailed);
  REQUIRE(outcome->message.size() <= 1024);
}

void runAlone(boost::asio::io_context& io, const std::shared_ptr<runtime::Live>& live,
              const model::ExecSpec& spec) {
  fuzz::StrictObserver observer(spec.artifacts.max_files, spec.artifacts.max_bytes);
  bool ended = false;
  const auto run = std::make_shared<runtime::Run>(live, spec, observer, [] {});
  boost::asio::co_spawn(
      io,
      [&]() -> runtime::Task<void> {
        expectOutcome(co_await run->go());
        ended = true;
      },
      boost::asio::detached);
  io.run();
  REQUIRE(ended);
}

// Collects no file.
void runInSession(boost::asio::io_context& io, const std::shared_ptr<runtime::Live>& live,
                  const model::ExecSpec& spec, bool rests) {
  const auto board = std::make_shared<runtime::Switchboard>(live);
  board->start();
  fuzz::StrictObserver observers[] = {{0, 0}, {0, 0}};
  int ended = 0;
  for (fuzz::StrictObserver& observer : observers) {
    boost::asio::co_spawn(
        io,
        [&]() -> runtime::Task<void> {
          const auto run =
              std::make_shared<runtime::SessionRun>(live, board, spec, model::Limits{});
          expectOutcome(co_await run->run(observer));
          ++ended;
        },
        boost::asio::detached);
  }
  if (rests) {
    boost::asio::co_spawn(
        io,
        [&]() -> runtime::Task<void> {
          if (co_await board->rest()) std::ignore = co_await board->goOn();
        },
        boost::asio::detached);
  }
  io.run();
  REQUIRE(ended == 2);
  REQUIRE(board->ended());
  REQUIRE(board->why().kind != model::SandboxEnd::Kind::kTornDown);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 100'000) return 0;
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd hostile(ends[0]);
  REQUIRE(write(hostile.get(), data + 1, size - 1) == static_cast<ssize_t>(size - 1));
  shutdown(hostile.get(), SHUT_WR);

  boost::asio::io_context io;
  runtime::Live::Parts parts{};
  if ((data[0] & 32) != 0) parts.guest = std::make_shared<const CountingGuest>();
  const auto live = std::make_shared<runtime::Live>(io.get_executor(), std::move(parts));
  live->adopt(Fd(), Fd(ends[1]));
  using Ahead = runtime::Live::Ahead;
  if ((data[0] & 8) != 0) live->setAhead((data[0] & 16) != 0 ? Ahead::kCopied : Ahead::kAtFifo);
  const model::ExecSpec spec = specOf(data[0]);
  if ((data[0] & 64) == 0) {
    runAlone(io, live, spec);
  } else {
    runInSession(io, live, spec, (data[0] & 128) != 0);
  }
  return 0;
}
