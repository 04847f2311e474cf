// SPDX-License-Identifier: Apache-2.0
#include "bench/footprint.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/file.h"
#include "linux/cgroup_files.h"
#include "linux/proc_tree.h"

namespace cloister::bench {
namespace {

using base::monotonicNow;
using std::chrono::seconds;

std::string processFile(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// The parent of every live process.
std::map<pid_t, pid_t> parents() {
  std::map<pid_t, pid_t> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    const std::string stat = base::readFile(processFile(pid, "stat")).value_or(std::string());
    const size_t name_end = stat.rfind(')');  // the name may hold anything
    if (name_end == std::string::npos) continue;
    std::istringstream words(stat.substr(name_end + 1));
    char state = 0;
    pid_t parent = 0;
    if (words >> state >> parent && state != 'Z' && state != 'X') found[pid] = parent;
  }
  return found;
}

std::vector<pid_t> tree(pid_t root) {
  const std::map<pid_t, pid_t> all = parents();
  std::vector<pid_t> found = {root};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const auto& [pid, parent] : all) {
      if (parent == found[i]) found.push_back(pid);
    }
  }
  return found;
}

// The number after `key` in the lines of `text`.
double valueOf(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key)) return std::strtod(line.c_str() + key.size(), nullptr);
  }
  return 0;
}

// The cgroup files that count the memory of processes.
struct MemoryGroups {
  std::string controller;  // "" on v2
  linux::CgroupMount mount;
  const char* charge = nullptr;  // the file with the charge

  static MemoryGroups find() {
    const auto mounts =
        linux::parseCgroupMounts(base::readFile("/proc/self/mountinfo").value_or(std::string()));
    for (const linux::CgroupMount& mount : mounts) {
      if (linux::contains(mount.controllers, "memory")) {
        return {"memory", mount, "memory.usage_in_bytes"};
      }
    }
    for (const linux::CgroupMount& mount : mounts) {
      if (mount.v2) return {"", mount, "memory.current"};
    }
    return {};
  }

  // The directory of a process's group if the group is a sandbox's: .../node-<random>/<sandbox>.
  [[nodiscard]] std::string sandboxOf(pid_t pid) const {
    const auto groups = base::readFile(processFile(pid, "cgroup"));
    const auto own = groups ? linux::findOwnGroup(*groups, controller) : std::nullopt;
    if (charge == nullptr || !own || own->find("/cloister/node-") == std::string::npos) return "";
    return linux::directoryOf(mount, *own);
  }
};

void addTo(Footprint& all, const MemoryGroups& groups, const std::string& group, pid_t pid,
           double pss) {
  auto found = std::ranges::find(all.sandboxes, group, &ReadySandbox::group);
  if (found == all.sandboxes.end()) {
    const auto charge = base::readFile(group + "/" + groups.charge);
    found =
        all.sandboxes.insert(found, {.group = group,
                                     .program = "",
                                     .pss = 0,
                                     .charge = std::strtod(charge.value_or("0").c_str(), nullptr)});
  }
  found->pss += pss;
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink(processFile(pid, "exe"), ignored).filename();
  if (!program.string().starts_with("memfd:")) found->program = program;  // else the runner
}

std::set<std::string> names(const Footprint& all) {
  std::set<std::string> groups;
  for (const ReadySandbox& sandbox : all.sandboxes)
    groups.insert(sandbox.group + " " + sandbox.program);
  return groups;
}

}  // namespace

Result<Footprint> footprint(pid_t server) {
  const MemoryGroups groups = MemoryGroups::find();
  Footprint all;
  for (const pid_t pid : tree(server)) {
    const std::string group = groups.sandboxOf(pid);
    const auto text = base::readFile(processFile(pid, "smaps_rollup"));
    const double pss = valueOf(text.value_or(std::string()), "Pss:") * 1024;
    if (pss == 0 && ::access(processFile(pid, "exe").c_str(), F_OK) != 0)
      continue;  // the process has ended
    if (!text) return std::unexpected(text.error());
    if (group.empty()) {
      all.pss += pss;
      ++all.processes;
    } else {
      addTo(all, groups, group, pid, pss);
    }
  }
  return all;
}

Result<Footprint> readyFootprint(pid_t server, const std::string& program, int patience_seconds) {
  const auto end = monotonicNow() + seconds(patience_seconds);
  Footprint before;
  while (monotonicNow() < end) {
    Footprint now = TRY(footprint(server));
    const bool some = std::ranges::any_of(now.sandboxes, [&](const ReadySandbox& sandbox) {
      return sandbox.program.starts_with(program);
    });
    if (some && names(now) == names(before)) return now;
    before = std::move(now);
    std::this_thread::sleep_for(Millis(300));
  }
  return fail(Code::kUnavailable, "waiting for ready sandboxes with " + program + ": none stay");
}

// Quiet means little processor time, and none of the short-lived processes left: a process of idle
// priority may wait for its turn.
Result<> settle(pid_t server, int patience_seconds) {
  constexpr auto kWindow = Millis(500);
  constexpr uint64_t kQuiet = 10'000;       // µs of processor time in a window: 2 % of a processor
  constexpr int kWindows = 6;               // quiet windows in a row
  constexpr auto kNotBefore = seconds(33);  // the node begins to verify after 30
  const auto start = monotonicNow();
  linux::TreeUsage before = linux::usageOfTree(server);
  uint32_t fewest = before.processes;
  for (int quiet = 0; quiet < kWindows || monotonicNow() < start + kNotBefore;) {
    if (monotonicNow() > start + seconds(patience_seconds)) {
      return fail(Code::kUnavailable,
                  "waiting for the server to settle: it still works in the background; try again "
                  "when the machine is less busy");
    }
    std::this_thread::sleep_for(kWindow);
    const linux::TreeUsage now = linux::usageOfTree(server);
    fewest = std::min(fewest, now.processes);
    // Less time than before: a process has ended.
    const bool still = now.processes == fewest && now.cpu_micros >= before.cpu_micros &&
                       now.cpu_micros - before.cpu_micros <= kQuiet;
    quiet = still ? quiet + 1 : 0;
    before = now;
  }
  return {};
}

}  // namespace cloister::bench
