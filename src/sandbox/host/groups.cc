// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/groups.h"

#include <utility>

#include "confine/spawn_loop.h"

namespace cloister::runtime {

Groups::Groups(const boost::asio::any_io_executor& executor, std::shared_ptr<ProcessHost> host)
    : host_(std::move(host)), timer_(executor) {}

Groups::~Groups() {
  if (spare_) spare_->remove();
}

Result<std::unique_ptr<linux::Cgroup>> Groups::take(const linux::CgroupLimits& limits) {
  std::unique_ptr<linux::Cgroup> group = std::move(spare_);
  const auto before = std::exchange(taken_, base::monotonicNow());
  timer_.cancel();
  if (taken_ - before <= host_->config().ready_idle) makeSpareInALull(limits);
  if (!group) return host_->makeGroup(limits);
  if (limits == spare_limits_) return group;
  auto limited = group->limit(limits);
  if (limited) return group;
  group->remove();
  return std::unexpected(std::move(limited).error());
}

void Groups::makeSpareInALull(const linux::CgroupLimits& limits) {
  timer_.expires_after(kLull);
  timer_.async_wait([weak = weak_from_this(), limits](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->spare_) return;
    if (auto group = self->host_->makeGroup(limits)) self->spare_ = *std::move(group);
    if (self->spare_) self->spare_->openCounters();
    self->spare_limits_ = limits;
    self->dropSpareWhenIdle();
  });
}

void Groups::dropSpareWhenIdle() {
  timer_.expires_after(host_->config().ready_idle);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self && self->spare_) std::exchange(self->spare_, nullptr)->remove();
  });
}

std::vector<int> groupFds(const linux::Cgroup* group, bool by_zygote, SandboxSpec& spec) {
  if (group == nullptr) return {};
  // The kernel does not let a zygote create processes directly in a cgroup (cgroup.h).
  spec.into_cgroup = !by_zygote && group->cloneFd() >= 0;
  if (spec.into_cgroup) return {group->cloneFd()};
  std::vector<int> fds = group->joinFds();
  spec.join_count = static_cast<uint32_t>(fds.size());
  return fds;
}

}  // namespace cloister::runtime
