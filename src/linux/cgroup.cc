// SPDX-License-Identifier: Apache-2.0
#include "linux/cgroup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <sstream>

#include <dirent.h>

#include "base/file.h"
#include "linux/cgroup_files.h"

namespace cloister::linux {

std::vector<CgroupMount> parseCgroupMounts(std::string_view mountinfo) {
  std::vector<CgroupMount> mounts;
  std::istringstream lines{std::string(mountinfo)};
  for (std::string line; std::getline(lines, line);) {
    // 36 35 98:0 /root /path options [tags] - type source super-options; proc_pid_mountinfo(5)
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream head(line.substr(0, dash));
    std::istringstream tail(line.substr(dash + 3));
    std::string skipped;
    std::string type;
    std::string options;
    CgroupMount mount;
    head >> skipped >> skipped >> skipped >> mount.root >> mount.path;
    tail >> type >> skipped >> options;
    mount.v2 = type == "cgroup2";
    if (!mount.v2 && type != "cgroup") continue;
    std::istringstream names(options);
    for (std::string name; std::getline(names, name, ',');)
      mount.controllers.push_back(name);
    mounts.push_back(std::move(mount));
  }
  return mounts;
}

std::optional<std::string> findOwnGroup(std::string_view text, std::string_view controller) {
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    std::istringstream names(line.substr(first + 1, second - first - 1));
    if (controller.empty() && second == first + 1) return line.substr(second + 1);
    for (std::string name; std::getline(names, name, ',');) {
      if (name == controller) return line.substr(second + 1);
    }
  }
  return std::nullopt;
}

std::string directoryOf(const CgroupMount& mount, const std::string& own) {
  // In a cgroup namespace the root may be "/" or "/../..": groups outside the namespace are
  // invisible.
  std::string below = own;
  if (mount.root != "/" && below.starts_with(mount.root)) below.erase(0, mount.root.size());
  if (below == "/" || below.contains("..")) below.clear();
  const std::string path = mount.path + below;
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? path : mount.path;
}

Result<GroupDir> GroupDir::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return failErrno("opening " + path);
  return GroupDir(path, std::move(fd));
}

Result<GroupDir> GroupDir::make(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return failErrno("making " + path);
  return open(path);
}

bool GroupDir::has(const char* file) const {
  return ::faccessat(fd_.get(), file, F_OK, 0) == 0;
}

Result<Fd> GroupDir::openFile(const char* file, int flags) const {
  Fd fd(::openat(fd_.get(), file, flags | O_CLOEXEC));
  if (!fd) return failErrno("opening " + path_ + "/" + file);
  return fd;
}

namespace {

Result<std::string> readAll(const Fd& fd) {
  std::string text;
  char chunk[4096];
  for (;;) {
    const ssize_t n = ::pread(fd.get(), chunk, sizeof chunk, static_cast<off_t>(text.size()));
    if (n < 0) return failErrno("reading");
    text.append(chunk, static_cast<size_t>(n));
    // The kernel returns as many whole lines as fit, so a buffer far from full had the rest
    // (seq_file.rst).
    if (n < static_cast<ssize_t>(sizeof chunk / 2)) return text;
  }
}

}  // namespace

Result<std::string> GroupDir::read(const char* file) const {
  const auto kept = std::ranges::find(kept_, file, &std::pair<std::string_view, Fd>::first);
  if (kept != kept_.end()) return readAll(kept->second);
  auto text = readAll(TRY(openFile(file, O_RDONLY)));
  if (!text) return std::unexpected(std::move(text).error().within(path_ + "/" + file));
  return text;
}

void GroupDir::keep(const char* file) {
  if (auto opened = openFile(file, O_RDONLY)) kept_.emplace_back(file, *std::move(opened));
}

Result<> GroupDir::write(const char* file, std::string_view value) const {
  const Fd fd = TRY(openFile(file, O_WRONLY));
  if (::write(fd.get(), value.data(), value.size()) < 0) {
    return failErrno("writing " + std::string(value) + " to " + path_ + "/" + file);
  }
  return {};
}

uint64_t GroupDir::number(const char* file, std::string_view key) const {
  const std::string text = read(file).value_or(std::string());
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const bool is =
        key.empty() || (line.starts_with(key) && line.substr(key.size()).starts_with(' '));
    if (!is) continue;
    const std::string_view digits = line.substr(key.empty() ? 0 : key.size() + 1);
    uint64_t value = 0;
    std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return value;
  }
  return 0;
}

std::vector<pid_t> GroupDir::processes() const {
  std::vector<pid_t> pids;
  const auto text = read("cgroup.procs");
  if (!text) return pids;
  std::istringstream words(*text);
  for (pid_t pid = 0; words >> pid;)
    pids.push_back(pid);
  return pids;
}

bool GroupDir::remove() {
  return ::rmdir(path_.c_str()) == 0 || errno == ENOENT;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

uint64_t sumOf(std::string_view text, std::string_view key) {
  uint64_t sum = 0;
  for (size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at)) {
    at += key.size();
    uint64_t value = 0;
    std::from_chars(text.data() + at, text.data() + text.size(), value);
    sum += value;
  }
  return sum;
}

Result<> applyValues(const GroupDir& dir, const std::vector<CgroupValue>& values,
                     std::string_view controller) {
  for (const CgroupValue& value : values) {
    if (value.controller != controller) continue;
    auto written = dir.write(value.file.c_str(), value.value);
    if (!written && !value.optional) return written;
  }
  return {};
}

namespace {

std::vector<std::string> subdirectories(const std::string& path) {
  std::vector<std::string> names;
  DIR* dir = ::opendir(path.c_str());
  if (dir == nullptr) return names;
  while (const dirent* entry = ::readdir(dir)) {
    const std::string_view name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(dir);
  return names;
}

constexpr useconds_t kRemovePause = 2000;  // microseconds
constexpr int kRemoveRounds = 1000;        // 2 s: killed processes take so long on a busy machine

// Kills the processes of `dir`, including frozen processes, which die when thawed.
void killAll(const GroupDir& dir, bool v2) {
  if (!v2 || !dir.write("cgroup.kill", "1")) {
    for (const pid_t pid : dir.processes())
      ::kill(pid, SIGKILL);
  }
  if (dir.has("freezer.state")) std::ignore = dir.write("freezer.state", "THAWED");
}

// Removes the group and all groups below, children first. A group whose processes do not end in
// time stays for the next sweep.
bool removeGroups(const std::string& path, bool v2) {
  for (const std::string& name : subdirectories(path))
    removeGroups(path + "/" + name, v2);
  for (int round = 0; round < kRemoveRounds; ++round) {
    if (::rmdir(path.c_str()) == 0 || errno == ENOENT) return true;
    auto dir = GroupDir::open(path);
    if (!dir) return true;
    killAll(*dir, v2);
    ::usleep(kRemovePause);
  }
  return false;
}

// Kills parents first: freezing a v1 group freezes all groups below.
void killGroups(const std::string& path, bool v2) {
  if (const auto dir = GroupDir::open(path)) killAll(*dir, v2);
  for (const std::string& name : subdirectories(path))
    killGroups(path + "/" + name, v2);
}

bool removeTree(const std::string& path, bool v2) {
  killGroups(path, v2);
  return removeGroups(path, v2);
}

}  // namespace

void sweepDeadNodes(const std::string& parent, bool v2) {
  for (const std::string& name : subdirectories(parent)) {
    if (!name.starts_with("node-")) continue;
    auto dir = GroupDir::open(parent + "/" + name);
    if (!dir || ::flock(dir->fd(), LOCK_EX | LOCK_NB) != 0) continue;
    removeTree(dir->path(), v2);
  }
}

void removeNode(const GroupDir& dir, bool v2) {
  if (removeTree(dir.path(), v2)) ::rmdir(dir.path().substr(0, dir.path().rfind('/')).c_str());
}

Result<GroupDir> makeLocked(const std::string& parent, const std::string& name) {
  GroupDir dir = TRY(GroupDir::make(parent + "/" + name));
  if (::flock(dir.fd(), LOCK_EX | LOCK_NB) != 0) return failErrno("locking " + dir.path());
  return dir;
}

Result<std::unique_ptr<CgroupTree>> CgroupTree::open(const std::string& parent) {
  const std::string mountinfo = TRY(base::readFile("/proc/self/mountinfo"));
  const std::string own = TRY(base::readFile("/proc/self/cgroup"));
  const std::vector<CgroupMount> mounts = parseCgroupMounts(mountinfo);
  std::string why = "no cgroup file system is mounted";
  for (const CgroupMount& mount : mounts) {
    if (!mount.v2) continue;
    auto tree = openV2(mount, own, parent);
    if (!tree && tree.error().code == Code::kNotFound) tree = openV2(mount, own, parent);
    if (tree) return tree;
    why = std::move(tree).error().message;
  }
  if (std::ranges::all_of(mounts, &CgroupMount::v2)) return fail(Code::kUnsupported, why);
  auto tree = openV1(mounts, own, parent);
  // Another node, just ended, may have removed the shared directory: try again.
  if (!tree && tree.error().code == Code::kNotFound) tree = openV1(mounts, own, parent);
  if (tree) return tree;
  return fail(Code::kUnsupported, std::move(tree).error().message);
}

}  // namespace cloister::linux
