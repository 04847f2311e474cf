// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/live.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <tuple>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "async/spawn.h"
#include "base/clock.h"
#include "base/log.h"
#include "confine/spawn_loop.h"
#include "linux/proc_tree.h"
#include "linux/process.h"
#include "sandbox/box/limit_hits.h"

namespace cloister::runtime {
namespace {

namespace asio = boost::asio;
constexpr size_t kMostParts = 32;  // of ended programs and others, before some go at once
constexpr auto kFreezeFor = std::chrono::seconds(2);
// A cgroup stays busy for a moment after its last process ended. Removal is retried with growing
// pauses up to kLongestPause, without a final limit: each sandbox slot has at most one such task.
constexpr auto kBusyFor = std::chrono::seconds(4);
constexpr std::chrono::milliseconds kLongestPause = std::chrono::minutes(1);
constexpr auto kUse = asio::as_tuple(asio::use_awaitable);

}  // namespace

Live::Live(asio::any_io_executor executor, Parts parts)
    : executor_(std::move(executor)),
      parts_(std::move(parts)),
      lull_(executor_),
      buried_(executor_) {}

Task<Result<int>> Live::takeDisk(const SandboxSpec& spec) {
  disk_ = CO_TRY(co_await parts_.host->makeDisk(executor_, spec));
  co_return disk_->mountFd();
}

void Live::adopt(Fd pidfd, Fd runner_socket) {
  if (disk_) disk_->forgetMount();
  pidfd_ = std::move(pidfd);
  if (!parts_.group) pid_ = linux::pidOfPidfd(pidfd_.get());
  channel_.emplace(executor_, std::move(runner_socket));
  if (countedInside()) channel_->takeCounts(told_);
}

void Live::hear(Fd pipe) {
  if (!pipe) return;
  const auto stalled_at = [guest = parts_.guest](std::string_view said) {
    return guest->stalledAt(said);
  };
  words_ = std::make_shared<GuestWords>(executor_, std::move(pipe), stalled_at);
  async::spawn(executor_, GuestWords::listen(words_, [weak = weak_from_this()] {
                 if (const auto self = weak.lock()) self->kill();
               }));
}

void Live::watchLocks() {
  if (parts_.guest || lock_watch_) return;
  lock_watch_ = parts_.host->lockWatch(executor_);
  lock_watch_->watch(weak_from_this());
}

pid_t Live::firstProcess() const {
  return pidfd_ && !burying_ ? linux::pidOfPidfd(pidfd_.get()) : -1;
}

void Live::endFor(const LocksOver& locks) {
  if (burying_ || locks_over_) return;
  locks_over_ = locks;
  base::log(base::Level::kInfo, "sandbox ended for its file locks",
            {{"held", std::to_string(locks.held)}, {"most", std::to_string(locks.most)}});
  kill();
}

std::string Live::lost(std::string what) const {
  return words_ ? what + words_->told() : what;
}

bool Live::failedByChance() const {
  return words_ && parts_.guest->failedByChance(words_->last());
}

void Live::settle() {
  guest_memory_ = parts_.guest ? rawUsage().memory_peak : 0;
  before_ = usage();
  memory_most_ = 0;
  pids_most_ = 0;
  settled_at_ = base::monotonicNow();
}

bool Live::waiting() const {
  if (!pidfd_ || !channel_ || burying_ || channel_->buffered()) return false;
  pollfd fds[] = {{pidfd_.get(), POLLIN, 0}, {channel_->fd(), POLLIN, 0}};
  return ::poll(fds, 2, 0) == 0;
}

linux::CgroupLimits Live::groupLimits(const model::Limits& limits) const {
  return parts_.host->planFor(limits, parts_.slot, parts_.guest.get()).cgroup;
}

Result<> Live::limitGroup(linux::CgroupLimits limits) {
  if (shared_cpu_) limits.cpu_millis = std::min(limits.cpu_millis, *shared_cpu_);
  return parts_.group->limit(limits);
}

Result<> Live::limit(const model::Limits& limits) {
  if (parts_.group && parts_.limits != limits) {
    const linux::CgroupLimits after = groupLimits(limits);
    if (groupLimits(parts_.limits) != after) TRY(limitGroup(after));
  }
  parts_.limits = limits;
  settle();
  return {};
}

void Live::shareCpu(CpuShares& shares, const std::string& owner, uint32_t together) {
  if (parts_.group && !burying_) cpu_place_ = shares.add(owner, together, *this);
}

bool Live::giveCpu(uint32_t millis) {
  const auto given = parts_.group->limitCpu(std::min(millis, cpuMost()));
  if (given) {
    shared_cpu_ = millis;
  } else {
    base::log(base::Level::kWarn, "processor not shared out", {{"error", given.error().message}});
  }
  return given.has_value();
}

uint64_t Live::memoryBytes() const {
  return groupLimits(parts_.limits).memory_bytes;
}

Result<std::shared_ptr<void>> Live::lendMemory() {
  if (!parts_.group) return std::shared_ptr<void>();
  linux::CgroupLimits more = groupLimits(parts_.limits);
  more.memory_bytes *= 2;
  TRY(limitGroup(more));
  lent_++;
  return std::shared_ptr<void>(this, [self = shared_from_this()](void*) {
    async::spawn(self->executor_, takeMemoryBack(self));
  });
}

// The kernel needs a moment to free the image's memory.
Task<void> Live::takeMemoryBack(std::shared_ptr<Live> self) {
  if (--self->lent_ > 0) co_return;
  const linux::CgroupLimits usual = self->groupLimits(self->parts_.limits);
  asio::steady_timer pause(self->executor_);
  for (auto wait = std::chrono::milliseconds(1); wait < kBusyFor; wait *= 2) {
    if (self->burying_ || self->lent_ > 0 || self->limitGroup(usual)) co_return;
    pause.expires_after(wait);
    co_await pause.async_wait(kUse);
  }
  base::log(base::Level::kWarn, "sandbox ended: it keeps memory that was lent for its image");
  self->kill();
}

SandboxSpec Live::specWithin(const model::Limits& limits) const {
  return parts_.host->planFor(limits, parts_.slot, parts_.guest.get()).spec;
}

Result<std::unique_ptr<linux::Cgroup>> Live::makePart() {
  return parts_.group->split("part-" + std::to_string(++split_count_));
}

Result<std::shared_ptr<linux::Cgroup>> Live::split() {
  if (!parts_.group || parts_.guest) return nullptr;
  if (burying_) return fail(Code::kConflict, "the sandbox has ended");
  std::shared_ptr<linux::Cgroup> group = spare_part_ ? std::move(spare_part_) : TRY(makePart());
  split_.push_back({group});
  return group;
}

void Live::giveBack(const std::shared_ptr<linux::Cgroup>& part) {
  const auto found = std::ranges::find(split_, part, &Part::group);
  if (found == split_.end()) return;
  found->in_use = false;
  // A session that runs programs without pause leaves no lull for tidying, and each part holds
  // descriptors of the node.
  if (split_.size() > kMostParts) removeParts(false);
  tidyInALull();
}

bool Live::canFreeze() const {
  return parts_.group && !parts_.guest && parts_.group->canFreeze();
}

Task<Result<>> Live::freeze(std::function<bool()> over) {
  const auto self = shared_from_this();
  asio::steady_timer pause(executor_);
  for (Part& part : split_)
    part.frozen = true;
  for (auto wait = std::chrono::milliseconds(1); wait < kFreezeFor && !over(); wait *= 2) {
    bool all = true;
    for (const Part& part : split_) {  // an empty part may already be removed
      if (part.frozen) all = CO_TRY(part.group->freeze()) && all;
    }
    if (all) co_return Result<>{};
    pause.expires_after(wait);
    co_await pause.async_wait(kUse);
  }
  if (over()) co_return Result<>{};
  co_return fail(Code::kUnavailable, "what runs in the session could not be stopped in time");
}

void Live::thaw() {
  for (Part& part : split_) {
    if (std::exchange(part.frozen, false)) part.group->thaw();
  }
}

void Live::tidyInALull() {
  lull_.expires_after(kLull);
  lull_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (error || !self || self->burying_) return;
    self->removeParts(false);
    if (self->spare_part_) return;
    if (auto part = self->makePart()) self->spare_part_ = *std::move(part);
  });
}

Result<std::unique_ptr<linux::Cgroup>> Live::groupBeside(const linux::CgroupLimits& limits) {
  if (!parts_.group) return nullptr;
  if (burying_) return fail(Code::kConflict, "the session has ended");
  return parts_.group->within("beside-" + std::to_string(++split_count_), limits);
}

void Live::endsWith(const std::shared_ptr<Live>& other) {
  std::erase_if(beside_, [](const auto& each) { return each.expired(); });
  beside_.push_back(other);
  if (burying_) other->kill();
}

void Live::killBeside() {
  for (const auto& each : beside_) {
    if (const auto other = each.lock()) other->kill();
  }
}

Task<void> Live::outlastBeside() {
  for (const auto& each : std::exchange(beside_, {})) {
    const auto other = each.lock();
    if (!other || !other->pidfd_) continue;
    other->kill();
    std::ignore = co_await other->waitForEnd();
  }
}

void Live::removeParts(bool all) {
  if (all && spare_part_ && spare_part_->remove()) spare_part_.reset();
  std::erase_if(split_,
                [all](Part& part) { return (all || !part.in_use) && part.group->remove(); });
}

std::chrono::milliseconds Live::patience() const {
  return parts_.patience;
}

std::chrono::milliseconds Live::startPatience() const {
  return patience() * (parts_.guest ? parts_.guest->slowness() : 1);
}

Task<Result<RunnerFrame>> Live::nextFrame() {
  asio::steady_timer late(executor_, startPatience());
  late.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (!error) self->kill();
  });
  co_return co_await channel_->read();
}

void Live::kill() {
  killBeside();
  if (pidfd_) std::ignore = linux::signalPidfd(pidfd_.get(), SIGKILL);
  thaw();  // some kernels do not kill frozen processes
}

linux::CgroupUsage Live::usage() const {
  linux::CgroupUsage used = rawUsage();
  if (!parts_.guest) return used;
  const uint64_t whole = used.memory_peak;
  used.pids_peak = 0;
  used.memory_peak -= std::min(used.memory_peak, guest_memory_);
  used.memory_now -= std::min(used.memory_now, guest_memory_);
  // The guest's word, for no more than its machine has taken.
  if (countedInside()) used.memory_peak = std::min(told_.memory_peak, whole);
  return used;
}

linux::CgroupUsage Live::rawUsage() const {
  if (parts_.group) return parts_.group->usage();
  if (pid_ <= 0) return {};
  const linux::TreeUsage tree = linux::usageOfTree(pid_);
  // A reading takes a while, in which processes end and others begin. RLIMIT_NPROC allows no more
  // at the same time.
  return {.cpu_micros = tree.cpu_micros,
          .memory_peak = tree.rss_bytes,
          .memory_now = tree.rss_bytes,
          .pids_peak = std::min(tree.processes, parts_.limits.pids + 1)};
}

linux::IoBytes Live::rawIo() const {
  if (parts_.group) return parts_.group->io();
  return pid_ > 0 ? linux::usageOfTree(pid_).io : linux::IoBytes{};
}

linux::IoBytes Live::io() const {
  io_most_.atLeast(rawIo());
  linux::IoBytes moved{
      .read = io_most_.read - std::min(io_most_.read, io_before_.read),
      .written = io_most_.written - std::min(io_most_.written, io_before_.written)};
  if (parts_.group && parts_.group->countsWithin()) return moved;
  moved += io_beside_;
  for (const auto& each : beside_) {
    const auto other = each.lock();
    if (other && !other->io_handed_over_) moved += other->io();
  }
  return moved;
}

void Live::handOverIo(linux::IoBytes known) {
  if (!parts_.session || std::exchange(io_handed_over_, true)) return;
  known.atLeast(io());
  parts_.session->io_beside_ += known;
}

model::Usage Live::used() const {
  const linux::CgroupUsage now = usage();
  memory_most_ = std::max(memory_most_, now.memory_peak);
  pids_most_ = std::max(pids_most_, now.pids_peak);
  const linux::IoBytes moved = io();
  const uint64_t cpu = now.cpu_micros - std::min(now.cpu_micros, before_.cpu_micros);
  return {.wall_ms = std::chrono::duration_cast<std::chrono::milliseconds>(base::monotonicNow() -
                                                                           settled_at_)
                         .count(),
          .cpu_ms = static_cast<int64_t>(cpu / 1000),
          .max_rss_bytes = memory_most_,
          .memory_bytes = now.memory_now,
          .io_read_bytes = moved.read,
          .io_write_bytes = moved.written,
          .processes = withoutRunner(pids_most_),
          .disk_limit_bytes = workspaceBytes()};
}

linux::CgroupEvents Live::events() const {
  linux::CgroupEvents events = parts_.group ? parts_.group->events() : linux::CgroupEvents{};
  if (parts_.guest) events.pids_refused = told_.refused;  // not its threads
  events.oom_kills += told_.killed;
  return events;
}

// A pidfd is readable when its process has ended (pidfd_open(2)); the first process of a pid
// namespace ends after all others in it.
Task<Result<>> Live::waitForEnd() {
  asio::posix::stream_descriptor ended(executor_, ::fcntl(pidfd_.get(), F_DUPFD_CLOEXEC, 0));
  const auto [error] = co_await ended.async_wait(asio::posix::descriptor_base::wait_read, kUse);
  if (error) co_return fail(Code::kInternal, "waiting for a sandbox's end: " + error.message());
  co_return Result<>();
}

Task<Result<>> Live::removeGroup() {
  asio::steady_timer pause(executor_);
  for (auto wait = std::chrono::milliseconds(1); wait < kBusyFor; wait *= 2) {
    if (tryRemovingGroup()) co_return Result<>();
    pause.expires_after(wait);
    co_await pause.async_wait(kUse);
  }
  co_return fail(Code::kInternal, "removing a sandbox's cgroup: it stays busy");
}

// Returns when the cgroup is gone.
Task<void> Live::outlastGroup() {
  asio::steady_timer pause(executor_);
  for (std::chrono::milliseconds wait = kBusyFor;; wait = std::min(wait * 2, kLongestPause)) {
    pause.expires_after(wait);
    co_await pause.async_wait(kUse);
    if (tryRemovingGroup()) co_return;
  }
}

bool Live::tryRemovingGroup() {
  removeParts(true);
  if (parts_.group->remove()) return true;
  parts_.group->kill();
  return false;
}

Task<Result<>> Live::bury() {
  if (burying_) co_return Result<>();
  burying_ = true;
  const auto self = shared_from_this();
  kill();
  cpu_place_.reset();
  if (disk_) disk_->expectEnd();
  async::spawn(executor_, remove(self));
  const auto until = base::monotonicNow() + kBurialPatience;
  while (!removed_ && base::monotonicNow() < until)
    co_await buried_.wait(until);
  Result<> done = removed_.value_or(
      fail(Code::kInternal, "removing a sandbox: it takes long, and goes on meanwhile"));
  if (!done) {
    base::log(base::Level::kError, "sandbox not removed", {{"error", done.error().message}});
  }
  co_return done;
}

// The disk counts against the quota until gone. The uids stay taken while a process may be left,
// for which bury() waits no longer than usual.
Task<void> Live::remove(std::shared_ptr<Live> self) {
  ProcessHost& host = *self->parts_.host;
  const ProcessHost::Dying dying(host);
  auto emptied = co_await self->empty();
  self->ready_door_.reset();
  // Last: a program that is being killed sees no other end of its connections than its own.
  if (self->door_) co_await self->door_->release();
  if (self->disk_) co_await self->disk_->end(self->executor_);
  const bool stays = !emptied;
  const auto give_back = [&] {
    if (!self->parts_.session) host.returnSlot(self->parts_.slot);
  };
  if (!stays) give_back();
  self->removed_ = std::move(emptied);
  self->buried_.notify();
  if (!stays || !self->parts_.group) co_return;
  co_await self->outlastGroup();
  give_back();
  base::log(base::Level::kInfo, "sandbox removed after all");
}

// Waits until no process and no cgroup is left.
Task<Result<>> Live::empty() {
  co_await outlastBeside();
  if (pidfd_) CO_TRY(co_await waitForEnd());
  // Close, do not destroy: pending readers and writers may not have resumed yet.
  if (channel_) channel_->close();
  if (words_) words_->close();
  if (!parts_.group) co_return Result<>();
  co_return co_await removeGroup();
}

}  // namespace cloister::runtime
