// SPDX-License-Identifier: Apache-2.0
// The limits of one program of a session: watches the limits, and records in the outcome which
// limits were reached.
#include <signal.h>

#include <algorithm>

#include "sandbox/box/limit_hits.h"
#include "sandbox/box/session_run.h"

namespace cloister::runtime {

namespace limit_name = model::limit_name;
using model::End;

void SessionRun::armWall(std::chrono::milliseconds after) {
  wall_timer_.expires_after(after);
  wall_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    // A timer reset after expiry calls its old handler without an error.
    if (error || !self || self->done_) return;
    if (self->wall_timer_.expiry() > std::chrono::steady_clock::now()) return;
    if (self->cause_ || self->report_ || !self->started_) {
      self->stop(End::kRunnerLost, "the runner did not answer in time");
      self->live_->kill();
    } else {
      self->stop(End::kTimedOut);
    }
  });
}

void SessionRun::watchUsage(ExecObserver& observer) {
  usage_timer_.expires_after(kUsagePeriod);
  usage_timer_.async_wait(
      [weak = weak_from_this(), &observer](const boost::system::error_code& error) {
        const auto self = weak.lock();
        if (error || !self || self->done_ || self->cause_) return;
        self->checkUsage(observer);
        self->watchUsage(observer);
      });
}

void SessionRun::checkUsage(ExecObserver& observer) {
  if (group_ == nullptr) return;
  const linux::CgroupUsage now = group_->usage();
  const auto limit = millisOf(limits_.cpu_time);
  const uint64_t used = now.cpu_micros / 1000;
  if (limit > 0 && used >= limit) {
    addHit(outcome_, limit_name::kCpuTime, limit, used, "ms", true);
    return stop(End::kLimit);
  }
  // On an out-of-memory kill, end all other processes too, whichever process the kernel chose.
  if (outOfMemory() > 0 && group_->events().oom_kills > 0) {
    addHit(outcome_, limit_name::kMemory, live_->limits().memory_bytes, live_->usage().memory_peak,
           "bytes", true);
    return stop(End::kLimit);
  }
  const base::Monotonic at = base::monotonicNow();
  const bool with_io = at >= io_due_;
  if (with_io) io_due_ = at + kIoPeriod;
  model::Usage usage;
  measure(usage, with_io);
  usage.memory_bytes = now.memory_now;
  if (started_ && !compiling_) observer.onUsage(usage);
}

// Number of processes killed by the kernel since this program began: in its own group, or else in
// the whole sandbox.
uint64_t SessionRun::outOfMemory() const {
  const uint64_t own = group_ != nullptr ? group_->events().oom_kills : 0;
  const uint64_t all = live_->events().oom_kills;
  return own + all - std::min(all, before_.oom_kills);
}

void SessionRun::beginCell(std::string_view kernel) {
  const auto line = board_->kernelAt(kernel);
  Meter& meter = cell_.emplace();
  if (line) meter.kernel = line->group;
  meter.before = meter.kernel ? meter.kernel->usage() : live_->usage();
  meter.io_before = meter.kernel ? meter.kernel->io() : live_->io();
}

// An interpreter's group ends with the interpreter and then reports nothing, so keep the maximum
// seen.
linux::CgroupUsage SessionRun::usedByCell(linux::IoBytes& io, bool with_io) {
  const linux::CgroupUsage now = cell_->kernel ? cell_->kernel->usage() : live_->usage();
  linux::CgroupUsage& most = cell_->most;
  most.cpu_micros = std::max(most.cpu_micros, now.cpu_micros);
  most.memory_peak = std::max(most.memory_peak, now.memory_peak);
  most.pids_peak = std::max(most.pids_peak, now.pids_peak);
  if (with_io) cell_->io_most.atLeast(cell_->kernel ? cell_->kernel->io() : live_->io());
  const auto since = [](uint64_t value, uint64_t before) {
    return value - std::min(value, before);
  };
  io = {.read = since(cell_->io_most.read, cell_->io_before.read),
        .written = since(cell_->io_most.written, cell_->io_before.written)};
  linux::CgroupUsage used = most;
  used.cpu_micros = since(most.cpu_micros, cell_->before.cpu_micros);
  return used;
}

void SessionRun::measure(model::Usage& usage, bool with_io) {
  linux::CgroupUsage used = group_ != nullptr ? group_->usage() : linux::CgroupUsage{};
  if (with_io && group_ != nullptr) io_.atLeast(group_->io());
  io_.atLeast(reported_io_);
  linux::IoBytes io = io_;
  if (cell_) used = usedByCell(io, with_io);
  usage.wall_ms = std::chrono::duration_cast<Millis>(base::monotonicNow() - started_at_).count();
  usage.cpu_ms = static_cast<int64_t>(used.cpu_micros / 1000);
  usage.max_rss_bytes = used.memory_peak;
  usage.io_read_bytes = io.read;
  usage.io_write_bytes = io.written;
  usage.processes = used.pids_peak > 0 ? std::optional(used.pids_peak) : std::nullopt;
  usage.disk_limit_bytes = workspaceLimit(live_->workspaceBytes(), scratch_.value_or(Scratch{}));
  if (!report_) return;
  if (usage.processes) usage.processes = std::max(*usage.processes, 1U);
  if (cell_) return;
  // Use the runner's report if the kernel gives no value.
  if (group_ == nullptr) usage.cpu_ms = static_cast<int64_t>(report_->cpu_micros / 1000);
  if (usage.max_rss_bytes == 0) usage.max_rss_bytes = report_->max_rss;
}

void SessionRun::compose() {
  outcome_.finished_at = base::wallMicros();
  measure(outcome_.usage, true);
  if (cause_) {
    outcome_.end = *cause_;
  } else {
    judgeExit();
  }
  noteKill(outcome_);
  if (live_->events().pids_refused > before_.pids_refused) {
    const uint32_t pids = live_->limits().pids;
    addHit(outcome_, limit_name::kPids, pids, pids + 1, "processes");
  }
  if (!scratch_) return;
  // A file service must not take the blame from a running program.
  if (is_program_ || live_->workspaceState().programs == 0) {
    addScratchHits(outcome_, *scratch_, live_->limits(), live_->workspaceState(), no_space_.said());
  }
  addOpenFiles(outcome_, *scratch_, too_many_.said(), live_->limits());
}

void SessionRun::judgeExit() {
  outcome_.end = report_->signaled ? End::kSignaled : End::kExited;
  (report_->signaled ? outcome_.signal : outcome_.exit_code) = report_->value;
  // Without a group the runner counts, as in Run::judgeExit().
  const uint64_t limit = millisOf(limits_.cpu_time);
  const uint64_t apart = group_ == nullptr ? limit / 10 : 0;
  if (outOfMemory() > 0) {
    addHit(outcome_, limit_name::kMemory, live_->limits().memory_bytes, live_->usage().memory_peak,
           "bytes", true);
  } else if (!report_->signaled ||
             !addSignalHit(outcome_, scratch_.value_or(Scratch{}), live_->limits(), limit, apart)) {
    return;
  }
  outcome_.end = End::kLimit;
}

}  // namespace cloister::runtime
