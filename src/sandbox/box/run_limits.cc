// SPDX-License-Identifier: Apache-2.0
// The limits of a run: watches the limits, and records in the outcome which limits were reached.
#include <fcntl.h>
#include <signal.h>

#include <algorithm>

#include <boost/asio/error.hpp>

#include "base/clock.h"
#include "sandbox/box/limit_hits.h"
#include "sandbox/box/run.h"

namespace cloister::runtime {

namespace asio = boost::asio;
namespace limit_name = model::limit_name;
using model::End;

void Run::armWall(std::chrono::milliseconds after) {
  wall_timer_.expires_after(after);
  wall_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    // A timer reset after expiry calls its old handler without an error.
    if (error || self->wall_timer_.expiry() > std::chrono::steady_clock::now()) return;
    if (self->report_) {
      self->housing_->kill();  // the command has ended, whatever the runner still owes
    } else if (self->started_) {
      self->stop(End::kTimedOut);
    } else {
      self->stop(End::kRunnerLost, "the runner did not start the program in time");
    }
  });
}

// On an out-of-memory kill, end all other processes too, whichever process the kernel chose.
void Run::watchMemory() {
  const linux::Cgroup* group = housing_->group();
  if (group == nullptr || group->oomFd() < 0) return;
  oom_.emplace(housing_->executor(), ::fcntl(group->oomFd(), F_DUPFD_CLOEXEC, 0));
  oom_->async_wait(asio::posix::descriptor_base::wait_read,
                   [self = shared_from_this()](const boost::system::error_code& error) {
                     if (!error) self->stopForMemory();
                   });
}

void Run::stopForMemory() {
  if (cause_ || done_) return;
  addHit(outcome_, limit_name::kMemory, housing_->limits().memory_bytes,
         std::max(housing_->usage().memory_peak, peak_.memory_peak), "bytes", true);
  stop(End::kLimit);
}

void Run::watchUsage() {
  usage_timer_.expires_after(kUsagePeriod);
  usage_timer_.async_wait([self = shared_from_this()](const boost::system::error_code& error) {
    if (error || self->done_ || self->cause_) return;
    self->checkUsage();
    self->watchUsage();
  });
}

void Run::checkUsage() {
  if (housing_->countedInside() && housing_->events().oom_kills > 0) return stopForMemory();
  const linux::CgroupUsage now = housing_->usage();
  peak_.memory_peak = std::max(peak_.memory_peak, now.memory_peak);
  peak_.pids_peak = std::max(peak_.pids_peak, now.pids_peak);
  peak_.cpu_micros = std::max(peak_.cpu_micros, now.cpu_micros);
  const auto limit = millisOf(housing_->limits().cpu_time);
  const uint64_t used =
      (peak_.cpu_micros - std::min(peak_.cpu_micros, housing_->before().cpu_micros)) / 1000;
  if (limit > 0 && used >= limit) {
    addHit(outcome_, limit_name::kCpuTime, limit, used, "ms", true);
    return stop(End::kLimit);
  }
  // Without a cgroup nobody else adds the processes up.
  if (housing_->group() == nullptr && now.memory_peak > housing_->limits().memory_bytes)
    stopForMemory();
  model::Usage usage;
  usage.wall_ms = std::chrono::duration_cast<Millis>(base::monotonicNow() - started_at_).count();
  usage.cpu_ms = static_cast<int64_t>(used);
  usage.max_rss_bytes = peak_.memory_peak;
  usage.memory_bytes = now.memory_now;
  if (const auto at = base::monotonicNow(); at >= io_due_) {
    io_.atLeast(housing_->io());
    io_due_ = at + kIoPeriod;
  }
  usage.io_read_bytes = io_.read;
  usage.io_write_bytes = io_.written;
  usage.processes = withoutRunner(peak_.pids_peak);
  usage.disk_limit_bytes = workspaceLimit(housing_->workspaceBytes(), scratch_);
  if (started_ && !compiling_) observer_.onUsage(usage);
}

void Run::compose() {
  outcome_.finished_at = base::wallMicros();
  measure();
  const linux::CgroupEvents events = housing_->events();
  // Check the kernel's counter first: the kernel may have killed the runner with the programs.
  const bool by_itself = !cause_ || *cause_ == End::kRunnerLost;
  if (by_itself && events.oom_kills > 0) {
    addHit(outcome_, limit_name::kMemory, housing_->limits().memory_bytes,
           outcome_.usage.max_rss_bytes, "bytes", true);
    outcome_.end = End::kLimit;
    outcome_.message.clear();
  } else if (by_itself && housing_->locksOver()) {
    addLocksHit(outcome_, *housing_->locksOver());
    outcome_.end = End::kLimit;
    outcome_.message.clear();
  } else if (cause_) {
    outcome_.end = *cause_;
  } else {
    judgeExit();
  }
  noteKill(outcome_);
  addHits(events);
}

void Run::judgeExit() {
  const model::Limits& limits = housing_->limits();
  outcome_.end = report_->signaled ? End::kSignaled : End::kExited;
  (report_->signaled ? outcome_.signal : outcome_.exit_code) = report_->value;
  if (!report_->signaled) return;
  // A kernel kills by counted ticks but reports measured time; in an emulated guest the two differ
  // by some percent.
  const uint64_t limit = millisOf(limits.cpu_time);
  const uint64_t apart = housing_->toldFromInside() ? limit / 10 : 0;
  if (addSignalHit(outcome_, scratch_, limits, limit, apart)) outcome_.end = End::kLimit;
}

// Adds limits that the program reached without being ended.
void Run::addHits(const linux::CgroupEvents& events) {
  const model::Limits& limits = housing_->limits();
  // Without a cgroup only a look at the right moment tells.
  if (events.pids_refused > 0 || peak_.pids_peak > limits.pids) {
    addHit(outcome_, limit_name::kPids, limits.pids, limits.pids + 1, "processes");
  }
  addScratchHits(outcome_, scratch_, limits, housing_->workspaceState(), no_space_.said());
  addOpenFiles(outcome_, scratch_, too_many_.said(), limits);
}

void Run::measure() {
  const linux::CgroupUsage now = housing_->usage();
  const auto since = [](uint64_t value, uint64_t before) {
    return value - std::min(value, before);
  };
  model::Usage& usage = outcome_.usage;
  usage.wall_ms = std::chrono::duration_cast<Millis>(base::monotonicNow() - started_at_).count();
  uint64_t cpu = std::max(now.cpu_micros, peak_.cpu_micros);
  if (housing_->toldFromInside() && report_) cpu = std::max(cpu, report_->cpu_micros);
  usage.cpu_ms = static_cast<int64_t>(since(cpu, housing_->before().cpu_micros) / 1000);
  usage.max_rss_bytes = std::max(now.memory_peak, peak_.memory_peak);
  io_.atLeast(housing_->io());
  if (report_) io_.atLeast(report_->io);
  usage.io_read_bytes = io_.read;
  usage.io_write_bytes = io_.written;
  usage.processes = withoutRunner(std::max(now.pids_peak, peak_.pids_peak));
  usage.disk_limit_bytes = workspaceLimit(housing_->workspaceBytes(), scratch_);
  if (housing_->toldFromInside() && report_) {
    usage.max_rss_bytes = std::max(usage.max_rss_bytes, report_->max_rss);
    // Without a cgroup, polling may have missed a short program.
    const uint32_t own = report_->reaped > 0 ? 1 : 0;
    if (housing_->countsProcesses()) usage.processes = std::max(usage.processes.value_or(0), own);
  }
}

}  // namespace cloister::runtime
