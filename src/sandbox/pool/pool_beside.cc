// SPDX-License-Identifier: Apache-2.0
// Sandboxes beside a session's, each for one program: made on demand like any other, but with the
// session's user ids and workspace, and within the session's control group.
#include <sys/socket.h>

#include <utility>

#include "linux/message.h"
#include "sandbox/host/handed_out.h"
#include "sandbox/pool/pool.h"

namespace cloister::runtime {

// A clone of the workspace for a single sandbox: an attached mount cannot be moved elsewhere, and
// only a process in its mount namespace can clone the mount.
Task<Result<Fd>> Pool::openWorkspace(std::shared_ptr<Live> session) {
  const auto self = shared_from_this();
  auto [ours, theirs] = CO_TRY(linux::socketPair(SOCK_SEQPACKET));
  SpawnRequest request;
  request.what = SpawnRequest::What::kWorkspace;
  request.guest_fds = 1;
  const int fds[] = {theirs.get(), session->pidfd()};
  const auto queue = spawner_->get();
  Fd process = CO_TRY(co_await queue->spawn(request, fds));
  theirs.reset();
  auto mounts =
      co_await handedOut(executor_, std::move(ours), std::move(process), 1, session->patience());
  if (!mounts) co_return std::unexpected(std::move(mounts).error().within("its workspace"));
  co_return std::move(mounts->front());
}

Task<Result<std::shared_ptr<Live>>> Pool::makeBeside(std::shared_ptr<Live> session,
                                                     model::Limits limits, std::string walls) {
  const auto self = shared_from_this();
  How how{.workspace = CO_TRY(co_await openWorkspace(session))};
  SandboxPlan plan = host_->planFor(limits, session->slot(), nullptr);
  host_->addWalls(walls, nullptr, plan.spec);
  plan.spec.shares = true;
  plan.spec.on_disk = false;  // the session's may be; its own is in memory
  plan.spec.scratch_bytes = model::scratchBytes(limits);
  auto group = CO_TRY(session->groupBeside(plan.cgroup));
  const std::vector<int> groups = groupFds(group.get(), false, plan.spec);
  const auto& spawner = spawner_->root().spawner();
  const auto live =
      std::make_shared<Live>(executor_, Live::Parts{.host = host_,
                                                    .root = spawner,
                                                    .spawner = spawner,
                                                    .group = std::move(group),
                                                    .slot = session->slot(),
                                                    .limits = limits,
                                                    .guest = nullptr,
                                                    .patience = host_->config().runner_patience,
                                                    .session = session});
  auto started = co_await start(*live, plan.spec, walls, groups, how);
  if (started) session->endsWith(live);
  if (started) co_return live;
  std::ignore = co_await live->bury();
  Error error = std::move(started).error().within("starting the sandbox");
  if (error.code == Code::kUnavailable) error.code = Code::kInternal;  // a slot was free
  co_return std::unexpected(std::move(error));
}

}  // namespace cloister::runtime
