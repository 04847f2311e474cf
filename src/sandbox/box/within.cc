// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/within.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "async/signal.h"
#include "async/spawn.h"
#include "linux/message.h"
#include "sandbox/box/session_run.h"
#include "wire/files.h"
#include "wire/guest.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
using Socket = asio::local::stream_protocol::socket;
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);
constexpr size_t kPiece = 65'536;
// Time of the tunnel beyond the run's own limits, which the run itself enforces.
constexpr auto kTunnelGrace = std::chrono::minutes(5);

uint64_t cpuSeconds(const model::Limits& limits) {
  return static_cast<uint64_t>(std::chrono::ceil<std::chrono::seconds>(limits.cpu_time).count());
}

// Parameters for pid 1 of the guest, which enforces memory and process limits by other means.
std::vector<std::string> parametersFor(const model::Limits& limits, const SandboxSpec& spec,
                                       const WithinTraits& traits) {
  namespace name = wire::guest;
  const auto add = [](const char* key, const std::string& value) { return key + ("=" + value); };
  std::string each;
  for (const linux::ResourceLimit& of : std::span(spec.limits).first(spec.limit_count)) {
    if (of.resource == RLIMIT_DATA || of.resource == RLIMIT_NPROC) continue;
    if (!each.empty()) each += ',';
    // The guest does not sum up processor time over processes: each process has the full limit.
    const uint64_t value = of.resource == RLIMIT_CPU ? cpuSeconds(limits) : of.value;
    each += std::to_string(of.resource) + ":" + std::to_string(value);
  }
  return {add(name::kMemory, std::to_string(limits.memory_bytes)),
          add(name::kCpus, std::to_string(std::max(spec.shown_cpus, spec.guest_cpus))),
          add(name::kPids, std::to_string(limits.pids + 1)),
          add(name::kScratch, std::to_string(spec.scratch_bytes)),
          add(name::kInodes, std::to_string(spec.scratch_inodes)),
          add(name::kNoExec, traits.runs_own ? "0" : "1"),
          add(name::kWrites, std::to_string(static_cast<unsigned>(traits.writes))),
          add(name::kShares, traits.shares ? "1" : "0"),
          add(name::kLimits, each)};
}

class Within final : public Housing, public Apart, public std::enable_shared_from_this<Within> {
 public:
  Within(std::shared_ptr<Live> live, const std::shared_ptr<Switchboard>& board,
         const WithinTraits& traits)
      : live_(std::move(live)),
        limits_(traits.limits),
        writable_(traits.writable),
        shares_(traits.shares),
        ended_(live_->executor()) {
    const model::Limits& limits = limits_;
    model::ExecSpec tunnel;
    tunnel.run.argv = {wire::files::kNest};
    for (std::string& each : parametersFor(limits, live_->specWithin(limits), traits))
      tunnel.run.argv.push_back(std::move(each));
    tunnel.for_files = true;
    tunnel.keep_input = true;
    model::Limits patient = live_->limits();
    patient.wall = 2 * limits.wall + kTunnelGrace;  // the compiler has the same time as the program
    tunnel_ = std::make_shared<SessionRun>(live_, board, std::move(tunnel), patient);
  }

  Task<Result<std::shared_ptr<Housing>>> make() override {
    const std::shared_ptr<Housing> self = shared_from_this();
    auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_STREAM));
    channel_.emplace(executor(), std::move(ours));
    channel_->takeCounts(told_);
    far_.emplace(executor(), asio::local::stream_protocol(), theirs.release());
    async::spawn(executor(), carryOut(shared_from_this()));
    async::spawn(executor(), carryIn(shared_from_this()));
    asio::steady_timer late(executor(), live_->startPatience());
    late.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
      if (!error) self->kill();
    });
    const auto frame = co_await channel_->read();
    if (!frame) co_return fail(Code::kInternal, "no word from the runner: " + why_);
    CO_TRY(checkHello(*frame));
    if (writable_.empty()) co_return self;
    CO_TRY(co_await channel_->write(frameOf(wire::ToRunner::kWritable, 0, writable_)));
    co_return self;
  }

  void end() override { kill(); }

  // Returns after the tunnel has ended.
  Task<void> bury() override {
    kill();
    if (!far_) co_return;  // no tunnel exists
    hangUp();              // unread output may exceed the channel's buffer
    while (!out_ended_ || !in_ended_)
      co_await ended_.wait();
    channel_->close();
  }

  const asio::any_io_executor& executor() const override { return live_->executor(); }
  const model::Limits& limits() const override { return limits_; }
  RunnerChannel& channel() override { return *channel_; }
  std::chrono::milliseconds patience() const override { return live_->patience(); }
  Ahead ahead() const override { return Ahead::kNone; }
  const linux::Cgroup* group() const override { return nullptr; }
  bool toldFromInside() const override { return true; }
  bool countedInside() const override { return true; }
  bool countsProcesses() const override { return false; }
  const linux::CgroupUsage& before() const override { return before_; }
  linux::CgroupUsage usage() const override { return {.memory_peak = told_.memory_peak}; }
  uint64_t workspaceBytes() const override {
    return shares_ ? live_->workspaceBytes() : model::scratchBytes(limits_);
  }
  WorkspaceState& workspaceState() override {
    return shares_ ? live_->workspaceState() : workspace_state_;
  }
  [[nodiscard]] linux::CgroupEvents events() const override {
    linux::CgroupEvents events;
    events.pids_refused = told_.refused;
    events.oom_kills = told_.killed;
    return events;
  }
  void kill() override { tunnel_->cancel(); }
  std::string lost(std::string what) const override { return what; }

 private:
  // Output of the tunnel program in the session is output of the inner runner.
  class ToChannel final : public ExecObserver {
   public:
    explicit ToChannel(Within& of) : of_(of) {}
    void onStarted() override {}
    Task<void> onOutput(model::Stream stream, std::string_view bytes) override {
      if (stream != model::Stream::kStdout || of_.hung_up_) co_return;
      const auto [error, n] = co_await asio::async_write(*of_.far_, asio::buffer(bytes), kUse);
      if (!error) co_return;
      of_.hangUp();  // the reader is gone
      of_.kill();
    }
    Task<void> onFileBegin(std::string /*path*/, uint64_t /*size*/) override { co_return; }
    Task<void> onFileData(std::string_view /*bytes*/) override { co_return; }
    Task<void> onFileEnd() override { co_return; }

   private:
    Within& of_;
  };

  static Task<void> carryOut(std::shared_ptr<Within> self) {
    ToChannel observer(*self);
    const auto outcome = co_await self->tunnel_->run(observer);
    const std::string& said = outcome ? outcome->message : outcome.error().message;
    if (!said.empty()) self->why_ = said;
    self->hangUp();
    self->out_ended_ = true;
    self->ended_.notify();
  }

  // After a failed write another write may never return: a closed socket reports the failure only
  // once.
  void hangUp() {
    hung_up_ = true;
    boost::system::error_code ignored;
    far_->shutdown(Socket::shutdown_both, ignored);
  }

  static Task<void> carryIn(std::shared_ptr<Within> self) {
    std::string piece(kPiece, '\0');
    for (;;) {
      const auto [error, n] = co_await self->far_->async_read_some(asio::buffer(piece), kUse);
      if (error || !co_await self->tunnel_->input(piece.substr(0, n))) break;
    }
    self->in_ended_ = true;
    self->ended_.notify();
  }

  const std::shared_ptr<Live> live_;  // the surrounding sandbox
  const model::Limits limits_;
  WorkspaceState workspace_state_;  // if not shared
  const std::string writable_;      // kWritable's payload; "" for none
  const bool shares_;
  std::shared_ptr<SessionRun> tunnel_;
  std::optional<RunnerChannel> channel_;
  std::optional<Socket> far_;  // the other end of the channel
  Counts told_;
  linux::CgroupUsage before_;
  std::string why_ = "it was refused, or not made in time";
  bool hung_up_ = false;
  bool out_ended_ = false;
  bool in_ended_ = false;
  async::Signal ended_;
};

}  // namespace

std::shared_ptr<Apart> withinOf(std::shared_ptr<Live> live,
                                const std::shared_ptr<Switchboard>& board,
                                const WithinTraits& traits) {
  return std::make_shared<Within>(std::move(live), board, traits);
}

}  // namespace cloister::runtime
