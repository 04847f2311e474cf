// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/process_runtime.h"

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
                 std::string prestart, std::string kind)
      : live_(std::move(live)),
        info_(std::move(info)),
        pool_(std::move(pool)),
        prestart_(std::move(prestart)),
        kind_(std::move(kind)) {}
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
    if (!prestart_.empty()) pool_->learn(live_->limits(), kind_, prestartOf(spec));
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
  std::string kind_;      // what it is called in the pool
  std::shared_ptr<Run> run_;
  bool cancelled_ = false;
};

class ProcessRuntime : public Runtime {
 public:
  ProcessRuntime(const asio::any_io_executor& executor, std::shared_ptr<ProcessHost> host)
      : host_(std::move(host)),
        pool_(std::make_shared<Pool>(executor, host_)),
        image_(
            std::make_shared<ImageWatch>(executor, host_->config().image_root,
                                         [host = host_, pool = pool_] { renew(*host, *pool); })) {
    image_->start();
  }

  Task<Result<std::unique_ptr<Sandbox>>> provision(const model::SignedPermit& permit) override;
  Task<Result<base::json::object>> plan(const model::SignedPermit& permit) override;
  std::optional<model::PoolStats> pool() const override { return pool_->stats(); }

 private:
  static void renew(ProcessHost& host, Pool& pool);

  std::shared_ptr<ProcessHost> host_;
  std::shared_ptr<Pool> pool_;
  std::shared_ptr<ImageWatch> image_;
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

Task<Result<std::unique_ptr<Sandbox>>> ProcessRuntime::provision(
    const model::SignedPermit& permit) {
  const model::PermitFields fields = CO_TRY(wire::decodePermit(permit.encoded));
  CO_TRY(checkPermit(fields));
  const std::string digest = CO_TRY(co_await image_->digest());
  std::string kind = fields.prestart;
  if (!kind.empty() && host_->config().zygote_per_tenant) kind += "@" + fields.tenant;
  auto live = CO_TRY(co_await pool_->claim(fields.limits, kind));
  SandboxInfo info{"process", host_->config().node, digest, host_->weakened()};
  if (!fields.session_id.empty()) co_return makeProcessSession(std::move(live), std::move(info));
  co_return std::make_unique<ProcessSandbox>(std::move(live), std::move(info), pool_,
                                             fields.prestart, std::move(kind));
}

// The image has changed: new sandboxes get a root made of what is there now.
void ProcessRuntime::renew(ProcessHost& host, Pool& pool) {
  base::log(base::Level::kInfo, "image changed, making a new root");
  pool.drop();
  if (auto renewed = host.renew(); !renewed) {
    base::log(base::Level::kError, "no new root", {{"error", renewed.error().message}});
  }
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
