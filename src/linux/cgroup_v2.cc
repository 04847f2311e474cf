// SPDX-License-Identifier: Apache-2.0
// cgroup v2: one hierarchy. A group that delegates controllers to its children may hold no process
// itself (the no-internal-process rule). This rule decides the possible places of the node's
// groups.
#include <fcntl.h>
#include <signal.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <sstream>

#include "base/id.h"
#include "linux/cgroup_files.h"

namespace cloister::linux {
namespace {

constexpr const char* kNeeded[] = {"memory", "pids", "cpu"};
constexpr const char* kRest = "rest";          // child of a divided group for all other processes
constexpr std::string_view kCpuWeight = "25";  // of 100, the default of all other groups

// The quota for a period of 100 ms.
std::string quotaOf(uint32_t cpu_millis) {
  return std::to_string(uint64_t{cpu_millis} * 100) + " 100000";
}

std::vector<CgroupValue> withoutCpu(const CgroupLimits& limits) {
  return {{"", "memory.max", std::to_string(limits.memory_bytes), false},
          {"", "memory.swap.max", "0", true},  // absent without swap accounting
          {"", "memory.oom.group", "1", false},
          {"", "pids.max", std::to_string(limits.pids), false}};
}

// The values for `limits`.
std::vector<CgroupValue> valuesOf(const CgroupLimits& limits) {
  std::vector<CgroupValue> values = withoutCpu(limits);
  values.push_back({"", "cpu.max", quotaOf(limits.cpu_millis), false});
  return values;
}

Result<GroupDir> makeLimited(const std::string& path, const std::vector<CgroupValue>& values) {
  GroupDir dir = TRY(GroupDir::make(path));
  auto applied = applyValues(dir, values, "");
  if (applied) return dir;
  dir.remove();
  return std::unexpected(std::move(applied).error());
}

bool offers(const GroupDir& dir, const char* file, std::string_view controller) {
  std::istringstream words(dir.read(file).value_or(std::string()));
  return contains({std::istream_iterator<std::string>(words), {}}, controller);
}

// Hands the controllers on to the children of `dir`.
Result<> enable(const GroupDir& dir) {
  for (const char* name : kNeeded) {
    if (!offers(dir, "cgroup.controllers", name)) {
      return fail(Code::kUnsupported,
                  "the " + std::string(name) + " controller is not available in " + dir.path());
    }
    if (offers(dir, "cgroup.subtree_control", name)) continue;
    TRY(dir.write("cgroup.subtree_control", "+" + std::string(name)));
  }
  if (offers(dir, "cgroup.controllers", "io")) {
    std::ignore = dir.write("cgroup.subtree_control", "+io");  // only for the accounting
  }
  return {};
}

// Moves all processes of `dir` into a leaf, as enable() requires. Repeats, since processes may fork
// meanwhile.
Result<> vacate(const GroupDir& dir, const std::string& leaf_name) {
  const GroupDir leaf = TRY(GroupDir::make(dir.path() + "/" + leaf_name));
  for (int round = 0; round < 10; ++round) {
    const std::vector<pid_t> pids = dir.processes();
    if (pids.empty()) return {};
    for (const pid_t pid : pids)
      std::ignore = leaf.write("cgroup.procs", std::to_string(pid));
  }
  return fail(Code::kUnsupported, "processes remain in " + dir.path());
}

class CgroupV2 : public Cgroup {
 public:
  explicit CgroupV2(GroupDir dir) : dir_(std::move(dir)) {}

  [[nodiscard]] std::vector<int> joinFds() const override {
    if (!procs_) procs_.reset(::openat(dir_.fd(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
    return {procs_.get()};
  }
  [[nodiscard]] int cloneFd() const override { return dir_.fd(); }

  Result<> limit(const CgroupLimits& limits) override {
    return applyValues(dir_, valuesOf(limits), "");
  }

  Result<> limitCpu(uint32_t cpu_millis) override {
    return dir_.write("cpu.max", quotaOf(cpu_millis));
  }

  void openCounters() override {
    for (const char* file : {"cpu.stat", "memory.peak", "memory.current", "pids.peak", "io.stat",
                             "memory.events", "pids.events"}) {
      dir_.keep(file);
    }
  }

  [[nodiscard]] CgroupUsage usage() const override {
    CgroupUsage usage;
    usage.cpu_micros = dir_.number("cpu.stat", "usage_usec");
    usage.memory_peak = dir_.number("memory.peak");
    usage.memory_now = dir_.number("memory.current");
    usage.pids_peak = static_cast<uint32_t>(dir_.number("pids.peak"));
    return usage;
  }

  [[nodiscard]] IoBytes io() const override {
    const std::string text = dir_.read("io.stat").value_or(std::string());
    return {.read = sumOf(text, "rbytes="), .written = sumOf(text, "wbytes=")};
  }

  [[nodiscard]] bool countsWithin() const override { return true; }

  [[nodiscard]] CgroupEvents events() const override {
    return {dir_.number("memory.events", "oom_kill"), dir_.number("pids.events", "max")};
  }

  // From Linux 5.2 on.
  [[nodiscard]] bool canFreeze() const override { return dir_.has("cgroup.freeze"); }

  Result<bool> freeze() override {
    TRY(dir_.write("cgroup.freeze", "1"));
    return dir_.number("cgroup.events", "frozen") == 1;
  }

  void thaw() override { std::ignore = dir_.write("cgroup.freeze", "0"); }

  void kill() override {
    if (dir_.write("cgroup.kill", "1")) return;
    // Before Linux 5.14: freeze, so that no process can fork during the kills.
    std::ignore = dir_.write("cgroup.freeze", "1");
    for (const pid_t pid : dir_.processes())
      ::kill(pid, SIGKILL);
    if (const auto rest = openRest()) {
      for (const pid_t pid : rest->processes())
        ::kill(pid, SIGKILL);
    }
    std::ignore = dir_.write("cgroup.freeze", "0");
  }

  Result<std::unique_ptr<Cgroup>> split(const std::string& name) override {
    TRY(dir_.write("memory.oom.group", "0"));
    return std::make_unique<CgroupV2>(TRY(GroupDir::make(dir_.path() + "/" + name)));
  }

  // This group's processes must move to a leaf before its controllers can be delegated.
  Result<std::unique_ptr<Cgroup>> within(const std::string& name,
                                         const CgroupLimits& limits) override {
    TRY(dir_.write("memory.oom.group", "0"));
    if (!divided_) {
      has_rest_ = true;  // from now on, also where the next fails
      TRY(vacate(dir_, kRest));
      TRY(enable(dir_));
      divided_ = true;
    }
    return std::make_unique<CgroupV2>(
        TRY(makeLimited(dir_.path() + "/" + name, withoutCpu(limits))));
  }

  [[nodiscard]] bool empty() const override { return dir_.processes().empty() && restIsEmpty(); }

  bool remove() override {
    if (auto rest = openRest(); rest && !rest->remove()) return false;
    return dir_.remove();
  }

 private:
  [[nodiscard]] Result<GroupDir> openRest() const {
    if (!has_rest_) return fail(Code::kNotFound, "it is not divided");
    return GroupDir::open(dir_.path() + "/" + kRest);
  }
  [[nodiscard]] bool restIsEmpty() const {
    const auto rest = openRest();
    return !rest || rest->processes().empty();
  }

  GroupDir dir_;
  bool has_rest_ = false;
  bool divided_ = false;
  mutable Fd procs_;  // opened on first use
};

class TreeV2 : public CgroupTree {
 public:
  explicit TreeV2(GroupDir dir) : dir_(std::move(dir)) {}
  ~TreeV2() override { removeNode(dir_, true); }
  TreeV2(const TreeV2&) = delete;
  TreeV2& operator=(const TreeV2&) = delete;

  Result<std::unique_ptr<Cgroup>> create(const std::string& name,
                                         const CgroupLimits& limits) override {
    return std::make_unique<CgroupV2>(TRY(makeLimited(dir_.path() + "/" + name, valuesOf(limits))));
  }

  [[nodiscard]] std::vector<CgroupValue> values(const CgroupLimits& limits) const override {
    return valuesOf(limits);
  }

  [[nodiscard]] std::string_view version() const override { return "v2"; }

 private:
  GroupDir dir_;
};

// A group is ours to divide when its manager says so (systemd's Delegate=) or, for an ordinary
// user, when it is writable at all.
bool isDelegated(const GroupDir& dir) {
  char value[8] = {};
  for (const char* name : {"trusted.delegate", "user.delegate"}) {
    if (::getxattr(dir.path().c_str(), name, value, sizeof value - 1) > 0 && value[0] == '1') {
      return true;
    }
  }
  return ::geteuid() != 0 && ::access((dir.path() + "/cgroup.procs").c_str(), W_OK) == 0 &&
         ::access((dir.path() + "/cgroup.subtree_control").c_str(), W_OK) == 0;
}

// The group to make `parent` in, with its controllers delegated: the own group if delegated or if
// the root of the visible hierarchy; for root otherwise the root of the hierarchy.
Result<GroupDir> chooseBase(const CgroupMount& mount, const std::string& own,
                            const std::string& parent) {
  const std::string path = directoryOf(mount, own);
  GroupDir dir = TRY(GroupDir::open(path));
  const bool at_root = path == mount.path;
  if (!at_root && !isDelegated(dir)) {
    if (::geteuid() != 0) {
      return fail(Code::kUnsupported, "the cgroup " + path + " is not delegated to this user");
    }
    dir = TRY(GroupDir::open(mount.path));
  }
  auto enabled = enable(dir);
  if (enabled) return dir;
  TRY(vacate(dir, parent + "-service"));
  TRY(enable(dir));
  return dir;
}

}  // namespace

Result<std::unique_ptr<CgroupTree>> openV2(const CgroupMount& mount, std::string_view own,
                                           const std::string& parent) {
  const std::string group = findOwnGroup(own, "").value_or("/");
  const GroupDir root = TRY(GroupDir::open(mount.path));
  if (!offers(root, "cgroup.controllers", "memory")) {
    return fail(Code::kUnsupported, "the cgroup v2 hierarchy has no memory controller");
  }
  const GroupDir base = TRY(chooseBase(mount, group, parent));
  const GroupDir shared = TRY(GroupDir::make(base.path() + "/" + parent));
  TRY(shared.write("cpu.weight", kCpuWeight));
  TRY(enable(shared));
  sweepDeadNodes(shared.path(), true);
  GroupDir node = TRY(makeLocked(shared.path(), "node-" + base::randomHex(4)));
  TRY(enable(node));
  return std::make_unique<TreeV2>(std::move(node));
}

}  // namespace cloister::linux
