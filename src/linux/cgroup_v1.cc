// SPDX-License-Identifier: Apache-2.0
// cgroup v1: one hierarchy per controller, so a group is a set of directories.
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/id.h"
#include "linux/cgroup_files.h"

namespace cloister::linux {
namespace {

constexpr std::string_view kWanted[] = {"memory", "pids", "cpu", "cpuacct", "freezer", "blkio"};
constexpr std::string_view kCpuShares = "256";  // of 1024, the default of all other groups

// Controllers mounted together share a directory, which is listed once in `dirs`.
struct Directory {
  std::vector<std::string> controllers;
  GroupDir dir;
};

const GroupDir* find(const std::vector<Directory>& dirs, std::string_view controller) {
  for (const Directory& directory : dirs) {
    if (contains(directory.controllers, controller)) return &directory.dir;
  }
  return nullptr;
}

// On v1 the group's memory excludes TCP and UDP buffers. The kernel counts the buffers only in a
// group with a limit of their own, however high.
constexpr const char* kSockets = "memory.kmem.tcp.limit_in_bytes";
constexpr uint64_t kSocketsShare = 16;  // buffers get memory / kSocketsShare on top

constexpr const char* kBytes = "blkio.throttle.io_service_bytes_recursive";
constexpr const char* kQuota = "cpu.cfs_quota_us";

// The quota for a period of 100 ms.
std::string quotaOf(uint32_t cpu_millis) {
  return std::to_string(uint64_t{cpu_millis} * 100);
}

std::vector<CgroupValue> withoutCpu(const CgroupLimits& limits) {
  const std::string memory = std::to_string(limits.memory_bytes);
  const std::string sockets = std::to_string(limits.memory_bytes / kSocketsShare);
  // memsw counts memory and swap together, so an equal value leaves no swap.
  return {{"memory", "memory.limit_in_bytes", memory, false},
          {"memory", "memory.memsw.limit_in_bytes", memory, true},
          {"memory", "memory.swappiness", "0", true},
          {"memory", kSockets, sockets, true},  // absent where the kernel was built without
          {"pids", "pids.max", std::to_string(limits.pids), false}};
}

// The values for `limits`.
std::vector<CgroupValue> valuesOf(const CgroupLimits& limits) {
  std::vector<CgroupValue> values = withoutCpu(limits);
  values.push_back({"cpu", "cpu.cfs_period_us", "100000", false});
  values.push_back({"cpu", kQuota, quotaOf(limits.cpu_millis), false});
  return values;
}

class CgroupV1 : public Cgroup {
 public:
  static Result<std::unique_ptr<CgroupV1>> create(const std::vector<Directory>& parents,
                                                  const std::string& name,
                                                  const std::vector<CgroupValue>& values) {
    auto group = std::make_unique<CgroupV1>();
    auto made = group->build(parents, name, values);
    if (made) return group;
    group->remove();
    return std::unexpected(std::move(made).error());
  }

  // cgroup-v1/memory.rst, "OOM Control".
  Result<> watchMemory() {
    const GroupDir* memory = find(dirs_, "memory");
    if (memory == nullptr) return {};
    const Fd control = TRY(memory->openFile("memory.oom_control", O_RDONLY));
    oom_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!oom_) return failErrno("eventfd");
    return memory->write("cgroup.event_control",
                         std::to_string(oom_.get()) + " " + std::to_string(control.get()));
  }

  [[nodiscard]] std::vector<int> joinFds() const override {
    std::vector<int> fds;
    fds.reserve(tasks_.size());
    for (const Fd& fd : tasks_)
      fds.push_back(fd.get());
    return fds;
  }

  [[nodiscard]] int oomFd() const override { return oom_.get(); }

  Result<> limit(const CgroupLimits& limits) override {
    // The kernel requires memsw >= the memory limit, which may be about to rise.
    if (const GroupDir* memory = find(dirs_, "memory"))
      std::ignore = memory->write("memory.memsw.limit_in_bytes", "-1");
    const std::vector<CgroupValue> values = valuesOf(limits);
    for (const Directory& directory : dirs_) {
      for (const std::string& controller : directory.controllers)
        TRY(applyValues(directory.dir, values, controller));
    }
    return {};
  }

  Result<> limitCpu(uint32_t cpu_millis) override {
    const GroupDir* cpu = find(dirs_, "cpu");
    return cpu == nullptr ? Result<>() : cpu->write(kQuota, quotaOf(cpu_millis));
  }

  [[nodiscard]] CgroupUsage usage() const override {
    CgroupUsage usage;
    if (const GroupDir* dir = find(dirs_, "cpuacct"))
      usage.cpu_micros = dir->number("cpuacct.usage") / 1000;
    if (const GroupDir* dir = find(dirs_, "memory")) {
      usage.memory_peak = dir->number("memory.max_usage_in_bytes");
      usage.memory_now = dir->number("memory.usage_in_bytes");
    }
    if (const GroupDir* dir = find(dirs_, "pids"))
      usage.pids_peak = static_cast<uint32_t>(dir->number("pids.peak"));
    return usage;
  }

  // blkio charges buffered writes to the writeback thread, not to the group. Its recursive count
  // includes the groups within.
  [[nodiscard]] IoBytes io() const override {
    IoBytes direct;
    if (const GroupDir* dir = find(dirs_, "blkio")) {
      const char* counter = divided_ ? "blkio.throttle.io_service_bytes" : kBytes;
      const std::string text = dir->read(counter).value_or(std::string());
      direct = {.read = sumOf(text, " Read "), .written = sumOf(text, " Write ")};
    }
    IoBytes all;
    if (!dirs_.empty()) addIo(dirs_.front().dir, all);
    std::erase_if(parts_, [&all](const std::string& path) {
      const auto part = GroupDir::open(path);
      if (part) addIo(*part, all);
      return !part;
    });
    all.atLeast(direct);
    return all;
  }
  [[nodiscard]] bool countsWithin() const override { return false; }

  [[nodiscard]] CgroupEvents events() const override {
    CgroupEvents events;
    if (const GroupDir* dir = find(dirs_, "memory"))
      events.oom_kills = dir->number("memory.oom_control", "oom_kill");
    if (const GroupDir* dir = find(dirs_, "pids"))
      events.pids_refused = dir->number("pids.events", "max");
    return events;
  }

  void openCounters() override {
    constexpr std::pair<std::string_view, const char*> kCounters[] = {
        {"cpuacct", "cpuacct.usage"},
        {"memory", "memory.max_usage_in_bytes"},
        {"memory", "memory.usage_in_bytes"},
        {"memory", "memory.oom_control"},
        {"pids", "pids.peak"},
        {"pids", "pids.events"},
        {"blkio", kBytes}};
    for (Directory& directory : dirs_) {
      for (const auto& [controller, file] : kCounters) {
        if (contains(directory.controllers, controller)) directory.dir.keep(file);
      }
    }
  }

  [[nodiscard]] bool canFreeze() const override { return find(dirs_, "freezer") != nullptr; }

  Result<bool> freeze() override {
    const GroupDir* freezer = find(dirs_, "freezer");
    if (freezer == nullptr) return fail(Code::kUnsupported, "the freezer is not mounted");
    TRY(freezer->write("freezer.state", "FROZEN"));
    return TRY(freezer->read("freezer.state")).starts_with("FROZEN");
  }

  void thaw() override {
    const GroupDir* freezer = find(dirs_, "freezer");
    if (freezer != nullptr) std::ignore = freezer->write("freezer.state", "THAWED");
  }

  void kill() override {
    const GroupDir* freezer = find(dirs_, "freezer");
    if (freezer != nullptr) std::ignore = freezer->write("freezer.state", "FROZEN");
    if (!dirs_.empty()) {
      for (const pid_t pid : dirs_.front().dir.processes())
        ::kill(pid, SIGKILL);
    }
    if (freezer != nullptr) std::ignore = freezer->write("freezer.state", "THAWED");
  }

  Result<std::unique_ptr<Cgroup>> split(const std::string& name) override {
    auto group = std::make_unique<CgroupV1>();
    auto made = group->build(dirs_, name, {{"memory", kSockets, "-1", true}});
    if (made && !dirs_.empty()) parts_.push_back(dirs_.front().dir.path() + "/" + name);
    if (made) return group;
    group->remove();
    return std::unexpected(std::move(made).error());
  }

  // No processor quota: a child's quota must stay below this group's, which may decrease. No
  // listener for out-of-memory events: the event also reaches each ancestor's listener. The
  // kernel's count of kills is separate for each group.
  Result<std::unique_ptr<Cgroup>> within(const std::string& name,
                                         const CgroupLimits& limits) override {
    divided_ = true;
    return create(dirs_, name, withoutCpu(limits));
  }

  [[nodiscard]] bool empty() const override {
    return dirs_.empty() || dirs_.front().dir.processes().empty();
  }

  bool remove() override {
    std::erase_if(dirs_, [](Directory& directory) { return directory.dir.remove(); });
    return dirs_.empty();
  }

 private:
  static void addIo(const GroupDir& dir, IoBytes& all) {
    for (const pid_t pid : dir.processes())
      all += ioOf(pid);
  }

  Result<> build(const std::vector<Directory>& parents, const std::string& name,
                 const std::vector<CgroupValue>& values) {
    for (const Directory& parent : parents) {
      dirs_.push_back({parent.controllers, TRY(GroupDir::make(parent.dir.path() + "/" + name))});
      const GroupDir& dir = dirs_.back().dir;
      tasks_.push_back(TRY(dir.openFile("tasks", O_WRONLY)));
      for (const std::string& controller : parent.controllers)
        TRY(applyValues(dir, values, controller));
    }
    return {};
  }

  std::vector<Directory> dirs_;
  std::vector<Fd> tasks_;
  mutable std::vector<std::string> parts_;  // existing split groups of the first directory
  bool divided_ = false;                    // whether child groups with own limits exist
  Fd oom_;
};

class TreeV1 : public CgroupTree {
 public:
  explicit TreeV1(std::vector<Directory> dirs) : dirs_(std::move(dirs)) {}
  ~TreeV1() override {
    for (Directory& directory : dirs_)
      removeNode(directory.dir, false);
  }
  TreeV1(const TreeV1&) = delete;
  TreeV1& operator=(const TreeV1&) = delete;

  Result<std::unique_ptr<Cgroup>> create(const std::string& name,
                                         const CgroupLimits& limits) override {
    auto group = TRY(CgroupV1::create(dirs_, name, valuesOf(limits)));
    if (auto watched = group->watchMemory(); !watched) {
      group->remove();
      return std::unexpected(std::move(watched).error());
    }
    return group;
  }

  [[nodiscard]] std::vector<CgroupValue> values(const CgroupLimits& limits) const override {
    return valuesOf(limits);
  }

  [[nodiscard]] std::string_view version() const override { return "v1"; }

  [[nodiscard]] std::vector<std::string> missing() const override {
    std::vector<std::string> names;
    for (const char* name : {"memory", "pids", "cpu", "cpuacct"}) {
      if (find(dirs_, name) == nullptr) names.emplace_back(name);
    }
    return names;
  }

 private:
  std::vector<Directory> dirs_;
};

// The parent of all nodes' groups in the hierarchy of `mount`, which has `controller`.
std::string baseOf(const CgroupMount& mount, std::string_view own, std::string_view controller,
                   const std::string& parent) {
  return directoryOf(mount, findOwnGroup(own, controller).value_or("/")) + "/" + parent;
}

// A node killed while ending a sandbox leaves frozen processes, which die only when thawed in the
// freezer's hierarchy. Until then no hierarchy lets go of the groups.
void thawDeadNodes(const std::vector<CgroupMount>& mounts, std::string_view own,
                   const std::string& parent) {
  for (const CgroupMount& mount : mounts) {
    if (!mount.v2 && contains(mount.controllers, "freezer"))
      sweepDeadNodes(baseOf(mount, own, "freezer", parent), false);
  }
}

Result<Directory> prepare(const std::string& base, std::vector<std::string> controllers,
                          const std::string& node) {
  const GroupDir dir = TRY(GroupDir::make(base));
  if (dir.has("cpu.shares")) TRY(dir.write("cpu.shares", kCpuShares));
  // Set before children exist; later the kernel would need more permissions than for this
  // directory.
  if (dir.has("memory.use_hierarchy")) std::ignore = dir.write("memory.use_hierarchy", "1");
  sweepDeadNodes(base, false);
  return Directory{std::move(controllers), TRY(makeLocked(base, node))};
}

}  // namespace

Result<std::unique_ptr<CgroupTree>> openV1(const std::vector<CgroupMount>& mounts,
                                           std::string_view own, const std::string& parent) {
  thawDeadNodes(mounts, own, parent);
  const std::string node = "node-" + base::randomHex(4);
  std::vector<Directory> dirs;
  for (const CgroupMount& mount : mounts) {
    std::vector<std::string> controllers;
    for (const std::string_view name : kWanted) {
      if (contains(mount.controllers, name)) controllers.emplace_back(name);
    }
    if (mount.v2 || controllers.empty() || find(dirs, controllers.front()) != nullptr) continue;
    const std::string base = baseOf(mount, own, controllers.front(), parent);
    dirs.push_back(TRY(prepare(base, std::move(controllers), node)));
  }
  if (find(dirs, "memory") == nullptr && find(dirs, "pids") == nullptr) {
    return fail(Code::kUnsupported, "neither the memory nor the pids controller is mounted");
  }
  return std::make_unique<TreeV1>(std::move(dirs));
}

}  // namespace cloister::linux
