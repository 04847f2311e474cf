// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/process_runtime.h"

#include <map>
#include <tuple>

#include <boost/asio/any_io_executor.hpp>

#include "base/log.h"
#include "model/prestart.h"
#include "runtime/process/host.h"
#include "runtime/process/image_watch.h"
#include "runtime/process/live.h"
#include "runtime/process/pool.h"
#include "runtime/process/process_session.h"
#include "runtime/process/run.h"
#include "runtime/spawn.h"
#include "wire/node.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;

class ProcessSandbox : public Sandbox {
 public:
  ProcessSandbox(std::shared_ptr<Live> live, SandboxInfo info, std::shared_ptr<Pool> pool,
                 std::string prestart, Pool::Alike alike)
      : live_(std::move(live)),
        info_(std::move(info)),
        pool_(std::move(pool)),
        prestart_(std::move(prestart)),
        alike_(std::move(alike)) {}
  ProcessSandbox(const ProcessSandbox&) = delete;
  ProcessSandbox& operator=(const ProcessSandbox&) = delete;
  ~ProcessSandbox() override {
    live_->kill();
    spawn(live_->executor(), bury(live_));
  }

  [[nodiscard]] const SandboxInfo& info() const override { return info_; }

  Task<Result<model::Outcome>> exec(const model::ExecSpec& spec, ExecObserver& observer) override {
    if (run_) co_return fail(Code::kConflict, "running: the sandbox is running already");
    if (!prestart_.empty() && model::prestartKey(spec) != prestart_) {
      co_return fail(Code::kDenied, "running: the program is not what its permit starts ahead");
    }
    run_ = std::make_shared<Run>(live_, spec, observer, [pool = pool_] { pool->refill(); });
    if (!prestart_.empty()) pool_->learn(live_->limits(), alike_, prestartOf(spec));
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
  std::shared_ptr<Pool> pool_;
  std::string prestart_;  // of the permit
  Pool::Alike alike_;
  std::shared_ptr<Run> run_;
  bool cancelled_ = false;
};

class ProcessRuntime : public Runtime {
 public:
  ProcessRuntime(const asio::any_io_executor& executor, std::shared_ptr<ProcessHost> host)
      : host_(std::move(host)) {
    const auto spawner = std::make_shared<PresentQueue>(executor, host_);
    kinds_["process"] = {std::make_shared<Pool>(executor, host_, spawner), nullptr,
                         host_->weakened()};
    for (const auto& guest : host_->config().guests) {
      kinds_[guest->name()] = {std::make_shared<Pool>(executor, host_, spawner, guest), guest,
                               host_->weakenedIn(*guest)};
    }
    const auto renewed = [host = host_, kinds = kinds_] { renew(*host, kinds); };
    image_ = std::make_shared<ImageWatch>(executor, host_->config().image_root, renewed);
    image_->start();
  }

  Task<Result<std::unique_ptr<Sandbox>>> provision(const model::SignedPermit& permit) override;
  Task<Result<base::json::object>> plan(const model::SignedPermit& permit) override;
  // Of the sandboxes without a guest; a guest's are few.
  std::optional<model::PoolStats> pool() const override {
    return kinds_.at("process").pool->stats();
  }

 private:
  // What permits call a runtime.
  struct Kind {
    std::shared_ptr<Pool> pool;
    std::shared_ptr<const Guest> guest;
    std::vector<std::string> weakened;
  };
  using Kinds = std::map<std::string, Kind>;

  Task<Result<std::string>> digestFor(const Kind& kind);
  [[nodiscard]] Result<const Kind*> kindFor(const model::PermitFields& permit) const;
  static void renew(ProcessHost& host, const Kinds& kinds);

  std::shared_ptr<ProcessHost> host_;
  Kinds kinds_;
  std::shared_ptr<ImageWatch> image_;
};

Result<const ProcessRuntime::Kind*> ProcessRuntime::kindFor(
    const model::PermitFields& permit) const {
  const auto kind = kinds_.find(permit.runtime);
  if (kind == kinds_.end()) {
    return fail(Code::kUnsupported, "provisioning: there is no runtime " + permit.runtime);
  }
  if (permit.network_tier != "none") {
    return fail(Code::kUnsupported, "provisioning: no network tier but \"none\"");
  }
  return &kind->second;
}

// Of its root: a guest may have one of its own.
Task<Result<std::string>> ProcessRuntime::digestFor(const Kind& kind) {
  std::string own = kind.guest ? kind.guest->imageDigest() : std::string();
  if (!own.empty()) co_return own;
  co_return co_await image_->digest();
}

Task<Result<std::unique_ptr<Sandbox>>> ProcessRuntime::provision(
    const model::SignedPermit& permit) {
  const model::PermitFields fields = CO_TRY(wire::decodePermit(permit.encoded));
  const Kind* of = CO_TRY(kindFor(fields));
  CO_TRY(host_->checkDisk(fields.limits, of->guest.get()));
  const std::string digest = CO_TRY(co_await digestFor(*of));
  Pool::Alike alike{.key = fields.prestart,
                    .walls = fields.walls.none() ? "" : wire::encodeWalls(fields.walls)};
  if (!alike.key.empty() && host_->config().zygote_per_tenant) alike.key += "@" + fields.tenant;
  auto live = CO_TRY(co_await of->pool->claim(fields.limits, alike));
  SandboxInfo info{fields.runtime, host_->config().node, digest, of->weakened};
  const std::string weaker = host_->weakenedWalls(fields.walls, of->guest.get());
  if (!weaker.empty()) info.weakened.push_back(weaker);
  if (host_->onDisk(fields.limits)) info.weakened.emplace_back(kWeakerOnDisk);
  if (!fields.session_id.empty()) {
    of->pool->refill();  // no program may start in it for long
    co_return makeProcessSession(std::move(live), std::move(info));
  }
  co_return std::make_unique<ProcessSandbox>(std::move(live), std::move(info), of->pool,
                                             fields.prestart, std::move(alike));
}

// The image has changed: new sandboxes get a root made of what is there now.
void ProcessRuntime::renew(ProcessHost& host, const Kinds& kinds) {
  base::log(base::Level::kInfo, "image changed, making a new root");
  for (const auto& [name, kind] : kinds)
    kind.pool->drop();
  if (auto renewed = host.renew(); !renewed) {
    base::log(base::Level::kError, "no new root", {{"error", renewed.error().message}});
  }
}

Task<Result<base::json::object>> ProcessRuntime::plan(const model::SignedPermit& permit) {
  const model::PermitFields fields = CO_TRY(wire::decodePermit(permit.encoded));
  const Kind* of = CO_TRY(kindFor(fields));
  CO_TRY(host_->checkDisk(fields.limits, of->guest.get()));
  base::json::object plan = host_->describePlan(fields.limits, fields.walls, of->guest.get());
  plan["image_digest"] = CO_TRY(co_await digestFor(*of));
  co_return plan;
}

}  // namespace

std::unique_ptr<Runtime> makeProcessRuntime(asio::any_io_executor executor,
                                            std::shared_ptr<ProcessHost> host) {
  return std::make_unique<ProcessRuntime>(std::move(executor), std::move(host));
}

}  // namespace cloister::runtime
