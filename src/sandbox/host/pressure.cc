// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/pressure.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/file.h"
#include "linux/cgroup.h"

namespace cloister::runtime {
namespace {

constexpr uint64_t kPercent = 100;

// The number after `key`; from_chars stops at the first other character.
template <class T>
std::optional<T> after(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + key.size());
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? std::optional<T>(value) : std::nullopt;
}

std::optional<uint64_t> numberIn(const std::string& path) {
  const auto text = base::readFile(path);
  return text ? after<uint64_t>(*text, "") : std::nullopt;
}

bool below(uint64_t available, uint64_t percent, uint64_t whole) {
  return available < whole / kPercent * percent;
}

// The cgroup that accounts this process's memory and its parents, whose limits apply too.
std::vector<std::string> groupsAbove(const std::string& proc) {
  std::vector<std::string> groups;
  const auto mountinfo = base::readFile(proc + "/self/mountinfo");
  const auto own = base::readFile(proc + "/self/cgroup");
  if (!mountinfo || !own) return groups;
  for (const linux::CgroupMount& mount : linux::parseCgroupMounts(*mountinfo)) {
    const bool memory = std::ranges::find(mount.controllers, "memory") != mount.controllers.end();
    if (!mount.v2 && !memory) continue;
    const auto group = linux::findOwnGroup(*own, mount.v2 ? "" : "memory");
    if (!group) continue;
    std::string path = linux::directoryOf(mount, *group);
    for (; path.size() > mount.path.size(); path.resize(path.rfind('/')))
      groups.push_back(path);
    groups.push_back(mount.path);
  }
  return groups;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
};
constexpr GroupFiles kV2{"/memory.max", "/memory.current"};
constexpr GroupFiles kV1{"/memory.limit_in_bytes", "/memory.usage_in_bytes"};

// Page cache of the group, which the kernel drops before running out of memory. memory.stat
// includes descendants; v1 has the sums in separate fields.
uint64_t droppable(const std::string& group) {
  const auto text = base::readFile(group + "/memory.stat");
  if (!text) return 0;
  const bool v1 = text->contains("\ntotal_inactive_file ");
  return after<uint64_t>(*text, v1 ? "\ntotal_inactive_file " : "\ninactive_file ").value_or(0) +
         after<uint64_t>(*text, v1 ? "\ntotal_active_file " : "\nactive_file ").value_or(0);
}

bool groupShort(const std::string& group, uint64_t percent) {
  for (const GroupFiles& files : {kV2, kV1}) {
    const auto limit = numberIn(group + files.limit);  // "max" is no number
    const auto usage = numberIn(group + files.usage);
    if (!limit || !usage) continue;
    const uint64_t used = *usage - std::min(*usage, droppable(group));
    if (below(*limit - std::min(*limit, used), percent, *limit)) return true;
  }
  return false;
}

}  // namespace

Pressure::Pressure(PressureConfig config)
    : config_(std::move(config)), groups_(groupsAbove(config_.proc)) {}

bool Pressure::memoryShort() const {
  if (config_.spare_memory == 0) return false;
  const auto text = base::readFile(config_.proc + "/meminfo");
  if (text) {
    const auto total = after<uint64_t>(*text, "MemTotal:");
    const auto available = after<uint64_t>(*text, "MemAvailable:");
    if (total && available && below(*available, config_.spare_memory, *total)) return true;
  }
  return std::ranges::any_of(groups_, [this](const std::string& group) {
    return groupShort(group, config_.spare_memory);
  });
}

bool Pressure::cpuShort() const {
  if (config_.cpu_pressure >= kPercent) return false;
  const auto stalled = base::readFile(config_.proc + "/pressure/cpu");
  const auto share = stalled ? after<double>(*stalled, "some avg10=") : std::nullopt;
  if (share && *share <= config_.cpu_pressure) return false;
  // "0.86 1.73 1.09 3/98 7004": of the three runnable, this process counts 1.
  const auto load = base::readFile(config_.proc + "/loadavg");
  if (!load) return false;
  std::istringstream words(*load);
  std::string runnable;
  for (int i = 0; i < 4; ++i)
    words >> runnable;
  return after<uint64_t>(runnable, "").value_or(0) > uint64_t{config_.cpus} + 1;
}

}  // namespace cloister::runtime
