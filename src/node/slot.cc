// SPDX-License-Identifier: Apache-2.0
#include "node/slot.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/crypto.h"
#include "base/log.h"

namespace cloister::node {
namespace {

using runtime::Task;
using wire::FromNode;

constexpr std::chrono::milliseconds kUsagePeriod{1000};  // interval of a session's usage reports

// Ignores the wall time, which always advances.
bool differs(model::Usage one, const model::Usage& other) {
  one.wall_ms = other.wall_ms;
  return one != other;
}

}  // namespace

Slot::Slot(std::shared_ptr<net::FrameConnection> connection, boost::asio::any_io_executor executor,
           uint32_t channel, model::PermitFields permit)
    : outlet_(std::move(connection), executor, channel),
      permit_(std::move(permit)),
      changed_(std::move(executor)) {}

Task<void> Slot::provision(runtime::Runtime& runtime, model::SignedPermit permit) {
  auto sandbox = co_await runtime.provision(permit);
  if (sandbox) {
    sandbox_ = *std::move(sandbox);
    const runtime::SandboxInfo& info = sandbox_->info();
    outlet_.post(FromNode::kProvisioned,
                 wire::encodeProvisioned(
                     {info.runtime, info.node, info.image, info.image_digest, info.weakened}));
    if (isSession()) {
      async::spawn(changed_.executor(), tellDeath(shared_from_this()));
      async::spawn(changed_.executor(), tellUsage(shared_from_this()));
    }
  } else {
    base::log(base::Level::kWarn, "sandbox not provisioned",
              {{"execution", permit_.execution_id}, {"reason", sandbox.error().message}});
    outlet_.postError(sandbox.error());
  }
  idle();
}

Task<void> Slot::tellDeath(std::shared_ptr<Slot> self) {
  const model::SandboxEnd end = co_await self->sandbox_->died();
  self->tellUsed();
  self->dead_ = true;
  if (end.kind == model::SandboxEnd::Kind::kTornDown || self->closing()) co_return;
  base::log(base::Level::kWarn, "session's sandbox ended",
            {{"session", self->permit_.session_id}, {"reason", end.message}});
  self->outlet_.post(FromNode::kDied, wire::encodeSandboxEnd(end));
}

Task<void> Slot::tellUsage(std::shared_ptr<Slot> self) {
  boost::asio::steady_timer pause(self->changed_.executor());
  while (self->sandbox_ && !self->closing() && !self->dead_) {
    self->tellUsed();
    pause.expires_after(kUsagePeriod);
    co_await pause.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
}

std::shared_ptr<void> Slot::hold() {
  ++holds_;
  ++holding_;
  return {nullptr, [self = shared_from_this()](void*) { --self->holding_; }};
}

void Slot::tellUsed() {
  if (!sandbox_ || closing() || dead_) return;
  std::optional<model::Usage> used = sandbox_->used();
  if (!used) return;
  used->cpu_millis = outlet_.cpuNow(used->cpu_ms);
  if (told_ && !differs(*used, *told_)) return;
  outlet_.onUsage(*used);
  told_ = used;
}

// Checks a permit to run a program in the session, and the program named by the permit.
Result<model::ExecSpec> Slot::admit(const model::PermitFields& permit,
                                    const wire::OpenRequest& request) const {
  const bool same = isSession() && permit.session_id == permit_.session_id &&
                    permit.tenant == permit_.tenant && permit.runtime == permit_.runtime;
  if (!same) return fail(Code::kDenied, "running a program: its permit is not for this session");
  if (base::sha256Hex(request.spec) != permit.spec_sha256) {
    return fail(Code::kDenied, "running a program: it is not the one that its permit names");
  }
  return wire::decodeExecSpec(request.spec);
}

Task<Result<std::unique_ptr<runtime::Exec>>> Slot::open(model::SignedPermit permit,
                                                        const model::ExecSpec& spec) {
  const auto self = shared_from_this();
  if (!sandbox_ || closing()) {
    co_return fail(Code::kConflict, "running in a session: its sandbox has ended");
  }
  co_return co_await sandbox_->open(permit, spec);
}

Task<void> Slot::exec(std::string encoded_spec) {
  busy_ = true;
  return execKept(shared_from_this(), std::move(encoded_spec));
}

Task<void> Slot::execKept(std::shared_ptr<Slot> self, std::string encoded_spec) {
  auto outcome = co_await self->perform(std::move(encoded_spec));
  if (outcome) {
    self->outlet_.post(FromNode::kFinished, wire::encodeOutcome(*outcome));
  } else {
    self->outlet_.postError(outcome.error());
  }
  self->idle();
}

Task<Result<model::Outcome>> Slot::perform(std::string encoded_spec) {
  if (std::exchange(exec_used_, true)) {
    co_return fail(Code::kDenied, "running a program: its permit was used");
  }
  if (base::sha256Hex(encoded_spec) != permit_.spec_sha256) {
    co_return fail(Code::kDenied, "running a program: it is not the one that its permit names");
  }
  const model::ExecSpec spec = CO_TRY(wire::decodeExecSpec(encoded_spec));
  encoded_spec.clear();
  encoded_spec.shrink_to_fit();
  co_return co_await sandbox_->exec(spec, outlet_);
}

Task<void> Slot::close() {
  tellUsed();
  outlet_.shut();
  if (sandbox_ && busy_) sandbox_->cancel();
  while (busy_)
    co_await changed_.wait();
  if (sandbox_) {
    if (const auto done = co_await sandbox_->teardown(); !done) {
      base::log(base::Level::kError, "sandbox not torn down",
                {{"execution", permit_.execution_id}, {"reason", done.error().message}});
    }
    sandbox_.reset();
  }
  outlet_.post(FromNode::kTornDown);
}

void Slot::cancel() {
  if (sandbox_ && busy_) sandbox_->cancel();
}

void Slot::idle() {
  busy_ = false;
  changed_.notify();
}

}  // namespace cloister::node
