// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/process_runtime.h"

#include <sys/socket.h>

#include <span>
#include <tuple>
#include <vector>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "linux/message.h"
#include "runtime/process/host.h"
#include "runtime/process/image_watch.h"
#include "runtime/process/live.h"
#include "runtime/process/run.h"
#include "runtime/process/spawn_queue.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

// From the spawn to the runner's first word.
constexpr auto kHelloTimeout = std::chrono::seconds(10);

class ProcessSandbox : public Sandbox {
 public:
  ProcessSandbox(std::shared_ptr<Live> live, SandboxInfo info)
      : live_(std::move(live)), info_(std::move(info)) {}
  ProcessSandbox(const ProcessSandbox&) = delete;
  ProcessSandbox& operator=(const ProcessSandbox&) = delete;
  ~ProcessSandbox() override {
    live_->kill();
    asio::co_spawn(live_->executor(), bury(live_), asio::detached);
  }

  [[nodiscard]] const SandboxInfo& info() const override { return info_; }

  Task<Result<model::Outcome>> exec(const model::ExecSpec& spec, ExecObserver& observer) override {
    if (run_) co_return fail(Code::kConflict, "running: the sandbox is running already");
    run_ = std::make_shared<Run>(live_, spec, observer);
    if (cancelled_) run_->stop(model::End::kCancelled);
    auto outcome = co_await run_->go();
    run_.reset();
    co_return outcome;
  }

  void cancel() override {
    cancelled_ = true;
    if (run_) run_->stop(model::End::kCancelled);
  }

  Task<Result<>> teardown() override { co_return co_await live_->bury(); }

 private:
  static Task<void> bury(std::shared_ptr<Live> live) { std::ignore = co_await live->bury(); }

  std::shared_ptr<Live> live_;
  SandboxInfo info_;
  std::shared_ptr<Run> run_;
  bool cancelled_ = false;
};

class ProcessRuntime : public Runtime {
 public:
  ProcessRuntime(asio::any_io_executor executor, std::shared_ptr<ProcessHost> host)
      : executor_(std::move(executor)),
        host_(std::move(host)),
        image_(std::make_shared<ImageWatch>(executor_, host_->config().image_root,
                                            [host = host_] { renew(*host); })) {
    image_->start();
  }

  Task<Result<std::unique_ptr<Sandbox>>> provision(const model::SignedPermit& permit) override;
  Task<Result<base::json::object>> plan(const model::SignedPermit& permit) override;

 private:
  Task<Result<>> start(Live& live, const SandboxPlan& plan, std::span<const int> groups);
  Task<Result<Fd>> spawn(const SandboxSpec& spec, std::span<const int> fds);
  static Task<Result<>> hello(Live& live);
  static void renew(ProcessHost& host);

  asio::any_io_executor executor_;
  std::shared_ptr<ProcessHost> host_;
  std::shared_ptr<ImageWatch> image_;
  std::shared_ptr<SpawnQueue> queue_;
};

Result<> checkPermit(const model::PermitFields& permit) {
  if (permit.runtime != "process") {
    return fail(Code::kUnsupported, "provisioning: this runtime is \"process\"");
  }
  if (permit.network_tier != "none") {
    return fail(Code::kUnsupported, "provisioning: no network tier but \"none\"");
  }
  return {};
}

// The descriptors that put a new process into `group`, and the spec told how many there are.
std::vector<int> groupFds(const linux::Cgroup* group, SandboxSpec& spec) {
  if (group == nullptr) return {};
  std::vector<int> fds = group->joinFds();
  spec.join_count = static_cast<uint32_t>(fds.size());
  spec.into_cgroup = group->cloneFd() >= 0;
  if (spec.into_cgroup) fds.push_back(group->cloneFd());
  return fds;
}

Task<Result<std::unique_ptr<Sandbox>>> ProcessRuntime::provision(
    const model::SignedPermit& permit) {
  const model::PermitFields fields = CO_TRY(wire::decodePermit(permit.encoded));
  CO_TRY(checkPermit(fields));
  const std::string digest = CO_TRY(co_await image_->digest());
  const auto slot = host_->takeSlot();
  if (!slot) co_return fail(Code::kUnavailable, "provisioning: all sandboxes are in use");
  SandboxPlan plan = host_->planFor(fields.limits, *slot);
  Live::Parts parts{host_, host_->spawner(), nullptr, *slot, fields.limits};
  if (host_->cgroups() != nullptr) {
    auto group = host_->cgroups()->create("sandbox-" + std::to_string(*slot), plan.cgroup);
    if (!group) {
      host_->returnSlot(*slot);
      co_return std::unexpected(std::move(group).error().within("provisioning"));
    }
    parts.group = *std::move(group);
  }
  const std::vector<int> groups = groupFds(parts.group.get(), plan.spec);
  const auto live = std::make_shared<Live>(executor_, std::move(parts));
  auto started = co_await start(*live, plan, groups);
  if (!started) {
    std::ignore = co_await live->bury();
    co_return std::unexpected(std::move(started).error().within("starting the sandbox"));
  }
  SandboxInfo info{"process", host_->config().node, digest, host_->weakened()};
  co_return std::make_unique<ProcessSandbox>(live, std::move(info));
}

Task<Result<>> ProcessRuntime::start(Live& live, const SandboxPlan& plan,
                                     std::span<const int> groups) {
  auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_STREAM));
  std::vector<int> fds = {theirs.get()};
  fds.insert(fds.end(), groups.begin(), groups.end());
  Fd pidfd = CO_TRY(co_await spawn(plan.spec, fds));
  live.adopt(std::move(pidfd), std::move(ours));
  theirs.reset();
  co_return co_await hello(live);
}

Task<Result<Fd>> ProcessRuntime::spawn(const SandboxSpec& spec, std::span<const int> fds) {
  for (bool again = true;; again = false) {
    if (!queue_ || queue_->spawner() != host_->spawner()) {
      queue_ = std::make_shared<SpawnQueue>(executor_, host_->spawner());
    }
    const auto queue = queue_;
    auto pidfd = co_await queue->spawn(spec, fds);
    if (pidfd || queue->spawner()->alive() || !again) co_return pidfd;
    // Others may have noticed, and replaced it, already.
    if (queue->spawner() == host_->spawner()) {
      base::log(base::Level::kError, "spawner lost, starting another");
      CO_TRY(host_->renew());
    }
  }
}

// The image has changed: new sandboxes get a root made of what is there now.
void ProcessRuntime::renew(ProcessHost& host) {
  base::log(base::Level::kInfo, "image changed, making a new root");
  if (auto renewed = host.renew(); !renewed) {
    base::log(base::Level::kError, "no new root", {{"error", renewed.error().message}});
  }
}

// The runner's first frame, or that of confine() saying what failed.
Task<Result<>> ProcessRuntime::hello(Live& live) {
  asio::steady_timer late(live.executor(), kHelloTimeout);
  late.async_wait([&live](const boost::system::error_code& error) {
    if (!error) live.kill();
  });
  const auto frame = co_await live.channel().read();
  if (!frame) co_return fail(Code::kInternal, "no word from the runner: " + frame.error().message);
  wire::Reader r(frame->payload);
  const uint32_t number = r.u32();
  if (frame->type == wire::FromRunner::kHello && r.done() && number == 1) co_return Result<>();
  const std::string what(r.bytes());
  if (frame->type == wire::FromRunner::kStartFailed && r.done()) {
    co_return fail(Code::kInternal, what);
  }
  co_return fail(Code::kInternal, "the runner broke its protocol");
}

Task<Result<base::json::object>> ProcessRuntime::plan(const model::SignedPermit& permit) {
  const model::PermitFields fields = CO_TRY(wire::decodePermit(permit.encoded));
  CO_TRY(checkPermit(fields));
  base::json::object plan = host_->describePlan(fields.limits);
  plan["image_digest"] = CO_TRY(co_await image_->digest());
  co_return plan;
}

}  // namespace

std::unique_ptr<Runtime> makeProcessRuntime(asio::any_io_executor executor,
                                            std::shared_ptr<ProcessHost> host) {
  return std::make_unique<ProcessRuntime>(std::move(executor), std::move(host));
}

}  // namespace cloister::runtime
