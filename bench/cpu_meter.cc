// SPDX-License-Identifier: Apache-2.0
#include "bench/cpu_meter.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/file.h"

namespace cloister::bench {
namespace {

constexpr const char* kController = "cpuacct";
constexpr const char* kProcesses = "cgroup.procs";
constexpr std::string_view kSelf = "0";

// The cpuacct group of this process; none on v2, where a new group would have other controllers
// than its parent.
std::optional<linux::GroupDir> ownGroup() {
  const auto mounts =
      linux::parseCgroupMounts(base::readFile("/proc/self/mountinfo").value_or(std::string()));
  const auto own =
      linux::findOwnGroup(base::readFile("/proc/self/cgroup").value_or(std::string()), kController);
  const auto mount = std::ranges::find_if(mounts, [](const linux::CgroupMount& each) {
    return linux::contains(each.controllers, kController);
  });
  if (!own || mount == mounts.end()) return std::nullopt;
  auto dir = linux::GroupDir::open(linux::directoryOf(*mount, *own));
  return dir ? std::optional(*std::move(dir)) : std::nullopt;
}

double machineSeconds() {
  std::istringstream words(base::readFile("/proc/stat").value_or(std::string()));
  std::string cpu;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double iowait = 0;
  double irq = 0;
  double softirq = 0;
  words >> cpu >> user >> nice >> system >> idle >> iowait >> irq >> softirq;
  return (user + nice + system + irq + softirq) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

}  // namespace

CpuMeter::CpuMeter() : before_(ownGroup()) {
  if (!before_) return;
  auto group =
      linux::GroupDir::make(before_->path() + "/cloister-bench-" + std::to_string(::getpid()));
  if (!group) return;
  if (group->write(kProcesses, kSelf)) {
    group_ = *std::move(group);
  } else {
    group->remove();
  }
}

CpuMeter::~CpuMeter() {
  if (!group_) return;
  constexpr Millis kPatience{2'000};
  std::ignore = before_->write(kProcesses, kSelf);
  const auto end = base::monotonicNow() + kPatience;
  while (!group_->remove()) {  // the last processes are still ending
    if (base::monotonicNow() > end) {
      std::fprintf(stderr, "cannot remove %s\n", group_->path().c_str());
      return;
    }
    std::this_thread::sleep_for(Millis(10));
  }
}

double CpuMeter::seconds() const {
  return group_ ? static_cast<double>(group_->number("cpuacct.usage")) / 1e9 : machineSeconds();
}

std::string CpuMeter::what() const {
  return group_ ? "user and system time of the tool, its clients, the service and the sandboxes"
                : "all that the machine was busy with, less what it was while nothing ran";
}

}  // namespace cloister::bench
