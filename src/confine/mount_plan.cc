// SPDX-License-Identifier: Apache-2.0
#include "confine/mount_plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <iterator>
#include <set>
#include <span>
#include <thread>

#include <dirent.h>

#include "base/clock.h"
#include "base/file.h"
#include "confine/door_order.h"
#include "confine/layer_order.h"
#include "confine/mount_steps.h"
#include "linux/encrypted_disk.h"
#include "wire/runner.h"

namespace cloister::runtime {
namespace {

using Op = MountStep::Op;
using linux::kNoDev;
using linux::kNoExec;
using linux::kNoSuid;
using linux::kReadOnly;

constexpr char kLower[] = "run/masked/lower";  // the layers, each in a directory
constexpr char kSkeleton[] = "run/masked/lower/skeleton";
constexpr char kOverlay[] = "overlay";

// Files of the host's /etc generated on each machine, without information about the owner: for
// linkers, locales and certificates. Copied, so that no mount names the host's file system.
constexpr const char* kEtcMade[] = {"ld.so.cache", "localtime", "os-release", "ssl/certs",
                                    "timezone"};
// Directories of links into the image; only the links are copied.
constexpr const char* kEtcLinks[] = {"alternatives", "fonts/conf.d"};
// Files that linkers and languages need besides, for hosts whose package contents are unknown.
constexpr const char* kEtcNeeded[] = {
    "fonts", "host.conf",  "ld.so.conf",      "ld.so.conf.d", "locale.alias",
    "magic", "magic.mime", "mime.types",      "perl",         "protocols",
    "R",     "services",   "ssl/openssl.cnf", "terminfo"};
constexpr std::string_view kEtcPrefixes[] = {"java-", "python3"};
// Synthesised for every sandbox.
constexpr std::string_view kEtcOwn[] = {"group",  "gshadow", "hostname",
                                        "hosts",  "mtab",    "nsswitch.conf",
                                        "passwd", "shadow",  "resolv.conf"};

// The entries of /proc/sys that programs read. All other entries describe the host.
constexpr const char* kProcSysKept[] = {
    "crypto/fips_enabled", "fs/file-max",         "fs/nr_open",
    "fs/pipe-max-size",    "kernel/cap_last_cap", "kernel/ngroups_max",
    "kernel/osrelease",    "kernel/ostype",       "kernel/overflowgid",
    "kernel/overflowuid",  "kernel/pid_max",      "kernel/sched_rr_timeslice_ms",
    "kernel/threads-max",  "kernel/version",      "net/core/somaxconn",
    "vm/max_map_count",    "vm/mmap_min_addr",    "vm/overcommit_memory",
    "vm/overcommit_ratio", "vm/swappiness"};

bool isMask(const MountStep& step) {
  return step.op == Op::kMask;
}

bool isOverlay(const MountStep& step) {
  return step.op == Op::kNew && step.source == kOverlay;
}

// overlayfs needs two lower layers when there is no upper layer; the second is an empty file
// system. `place`: path of the tree with the layers.
MountStep overlay(const std::string& target, const std::string& lower, std::string_view why,
                  const std::string& place = {}) {
  return {.op = Op::kNew,
          .target = target,
          .source = kOverlay,
          .why = why,
          .options = {{"lowerdir", place + lower + ":" + place + kEmptyLayer}},
          .attributes = kReadOnly | kNoSuid | kNoDev};
}

// A read-only view of a host directory. Through overlayfs, mountinfo does not name the source. The
// layer below stays for the sandboxes' own views.
void addLayer(std::vector<MountStep>& steps, const RootSource& source, const std::string& name) {
  const std::string lower =
      std::string(kLower) + "/" + std::to_string(std::ranges::count_if(steps, isOverlay));
  steps.push_back(directory(name, "mount point"));
  if (source.layered) steps.push_back(directory(lower, "mount point"));
  steps.push_back({.op = Op::kBind,
                   .target = source.layered ? lower : name,
                   .source = source.image_root + "/" + name,
                   .why = "the programs and libraries of the image",
                   .attributes = kReadOnly | kNoSuid | kNoDev});
  if (source.layered) steps.push_back(overlay(name, lower, "hides where the image lies"));
}

// /bin, /lib and so on: links into /usr where directories are merged, else layers themselves.
void addTopLevel(std::vector<MountStep>& steps, const RootSource& source) {
  addLayer(steps, source, "usr");
  for (const char* name : {"bin", "sbin", "lib", "lib32", "lib64", "libx32"}) {
    const std::string path = source.image_root + "/" + name;
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) continue;
    char to[PATH_MAX] = {};
    if (S_ISLNK(status.st_mode) && ::readlink(path.c_str(), to, sizeof to - 1) > 0) {
      steps.push_back(symlink(name, to, "merged /usr"));
    } else if (S_ISDIR(status.st_mode)) {
      addLayer(steps, source, name);
    }
  }
}

// Whether the path is a directory, without any symbolic link on the way below `root`.
bool isOwnDirectory(const std::string& root, std::string_view path) {
  for (size_t end = 0; end != std::string_view::npos;) {
    end = path.find('/', end + 1);
    struct stat status{};
    const std::string part = root + "/" + std::string(path.substr(0, end));
    if (::lstat(part.c_str(), &status) != 0) return errno == ENOENT;
    if (!S_ISDIR(status.st_mode)) return false;
  }
  return true;
}

// Covers the host's configuration among its programs by an empty directory, unless it is a link.
void hideConfiguration(std::vector<MountStep>& steps, const RootSource& source) {
  if (!isOwnDirectory(source.image_root, kLocalConfiguration)) return;
  steps.push_back(place(Op::kMask, kEmptyLayer, std::string(kLocalConfiguration),
                        "configuration of the host, which may hold secrets"));
}

// The names in a directory, sorted. Gives none if a link leads to the directory: a link in an image
// would lead into the host.
std::vector<std::string> namesIn(const std::string& path) {
  std::vector<std::string> names;
  const Fd directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  DIR* entries = directory ? ::fdopendir(::fcntl(directory.get(), F_DUPFD_CLOEXEC, 0)) : nullptr;
  if (entries == nullptr) return names;
  while (const dirent* entry = ::readdir(entries)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  ::closedir(entries);
  std::ranges::sort(names);
  return names;
}

// Adds each directory and link of `place` ("" or "/var") in an image used as a whole.
void addAll(std::vector<MountStep>& steps, const RootSource& source, const std::string& place,
            std::span<const std::string_view> except) {
  for (const std::string& name : namesIn(source.image_root + place)) {
    if (std::ranges::find(except, name) != except.end()) continue;
    const std::string target = place.empty() ? name : place.substr(1) + "/" + name;
    const std::string path = source.image_root + "/" + target;
    struct stat status{};
    if (::lstat(path.c_str(), &status) != 0) continue;
    char to[PATH_MAX] = {};
    if (S_ISLNK(status.st_mode) && ::readlink(path.c_str(), to, sizeof to - 1) > 0) {
      steps.push_back(symlink(target, to, "as in the image"));
    } else if (S_ISDIR(status.st_mode)) {
      addLayer(steps, source, target);
    }
  }
}

// Adds an imported image as a whole, except the directories that each sandbox has of its own.
void addWhole(std::vector<MountStep>& steps, const RootSource& source) {
  static constexpr std::string_view kOurs[] = {"dev", "etc", "home",      "proc", "run",
                                               "sys", "tmp", "workspace", "var"};
  static constexpr std::string_view kOursInVar[] = {"lock", "run", "tmp"};
  static constexpr std::string_view kOursInHome[] = {"user"};
  addAll(steps, source, "", kOurs);
  addAll(steps, source, "/var", kOursInVar);
  addAll(steps, source, "/home", kOursInHome);
}

// Adds all configuration of the image except files that describe another machine.
void addEtcWhole(std::vector<MountStep>& steps, const std::string& image_root) {
  for (const std::string& name : namesIn(image_root + "/etc")) {
    if (std::ranges::find(kEtcOwn, name) != std::end(kEtcOwn)) continue;
    steps.push_back(copyOf("etc/" + name, image_root + "/etc/" + name, "as in the image"));
  }
}

MountStep pivot() {
  return {.op = Op::kPivot, .why = "nothing else is left"};
}

void addSynthesised(std::vector<MountStep>& steps) {
  constexpr std::string_view kWhy = "the sandbox's own, not the host's";
  steps.push_back(file("etc/passwd",
                       "root:x:0:0:root:/nonexistent:/usr/sbin/nologin\n"
                       "sandbox:x:1000:1000:sandbox:/home/user:/bin/sh\n"
                       "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
                       kWhy));
  steps.push_back(file("etc/group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n", kWhy));
  steps.push_back(file("etc/hostname", "cloister\n", kWhy));
  steps.push_back(
      file("etc/hosts", "127.0.0.1 localhost cloister\n::1 localhost ip6-localhost\n", kWhy));
  steps.push_back(file("etc/nsswitch.conf",
                       "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                       "services: files\nprotocols: files\n",
                       kWhy));
  steps.push_back(file("etc/resolv.conf", "nameserver 127.0.0.1\n" + std::string(kDnsOptions),
                       "a door answers there"));
  steps.push_back(symlink("etc/mtab", "../proc/self/mounts", "what df and mount read"));
}

// Makes each directory once, parents first.
class Directories {
 public:
  explicit Directories(std::vector<MountStep>& steps) : steps_(steps) {}

  void make(const std::string& path, std::string_view why) {
    if (path.empty() || !made_.insert(path).second) return;
    make(path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/')), why);
    steps_.push_back(directory(path, why));
  }

 private:
  std::vector<MountStep>& steps_;
  std::set<std::string> made_;
};

// Leaves out manual pages: most of /etc/alternatives, and no sandbox reads manual pages.
void addEtcLinks(std::vector<MountStep>& steps, Directories& directories,
                 const std::string& image_root) {
  constexpr std::string_view kWhy = "leads to what the image has";
  for (const char* place : kEtcLinks) {
    const std::string target = std::string("etc/") + place;
    for (const std::string& name : namesIn(image_root + "/" + target)) {
      const std::string path = target + "/" + name;
      char to[PATH_MAX] = {};
      const bool manual = name.ends_with(".gz");
      if (manual || ::readlink((image_root + "/" + path).c_str(), to, sizeof to - 1) <= 0) continue;
      directories.make(target, kWhy);
      steps.push_back(symlink(path, to, kWhy));
    }
  }
}

void addShipped(std::vector<MountStep>& steps, Directories& directories,
                const std::vector<ShippedFile>& files) {
  for (const ShippedFile& each : files) {
    const size_t slash = each.path.rfind('/');
    const std::string name = each.path.substr(std::string_view("etc/").size());
    if (std::ranges::find(kEtcOwn, name) != std::end(kEtcOwn)) continue;
    directories.make(each.path.substr(0, slash), "of packages");
    steps.push_back(file(each.path, each.content, kShipped));
    steps.back().modified = each.modified;
  }
}

void addEtcNeeded(std::vector<MountStep>& steps, const std::string& image_root) {
  for (const char* name : kEtcNeeded) {
    const std::string path = std::string("/etc/") + name;
    steps.push_back(copyOf(path.substr(1), image_root + path, "read by programs of the image"));
  }
  // With a version in the name: /etc/java-17-openjdk, /etc/python3.11.
  for (const std::string& name : namesIn(image_root + "/etc")) {
    if (std::ranges::any_of(kEtcPrefixes, [&](auto prefix) { return name.starts_with(prefix); })) {
      steps.push_back(copyOf("etc/" + name, image_root + "/etc/" + name, "read by its language"));
    }
  }
}

void addEtcOfHost(std::vector<MountStep>& steps, const RootSource& source) {
  Directories directories(steps);
  directories.make("etc/ssl", "certificates");
  for (const char* name : kEtcMade) {
    const std::string path = std::string("/etc/") + name;
    steps.push_back(copyOf(path.substr(1), source.image_root + path, "made on each machine"));
  }
  if (source.etc) {
    addEtcLinks(steps, directories, source.image_root);
    addShipped(steps, directories, *source.etc);
  } else {
    steps.push_back(copyOf("etc/alternatives", source.image_root + "/etc/alternatives",
                           "leads to what the image has"));
    addEtcNeeded(steps, source.image_root);
  }
}

void addEtc(std::vector<MountStep>& steps, const RootSource& source) {
  steps.push_back(directory("etc", "configuration"));
  if (source.whole) {
    addEtcWhole(steps, source.image_root);
  } else {
    addEtcOfHost(steps, source);
  }
  addSynthesised(steps);
}

void addDevices(std::vector<MountStep>& steps) {
  struct Device {
    const char* name;
    unsigned minor;
  };
  steps.push_back(directory("dev", "mount point"));
  steps.push_back({.op = Op::kNew,
                   .target = "dev",
                   .source = "tmpfs",
                   .why = "the harmless devices, and nothing else",
                   .options = {{"size", "64k"}, {"nr_inodes", "64"}, {"mode", "755"}},
                   .attributes = kNoSuid | kNoExec});
  for (const Device& device : {Device{"null", 3}, Device{"zero", 5}, Device{"full", 7},
                               Device{"random", 8}, Device{"urandom", 9}}) {
    steps.push_back({.op = Op::kDevice,
                     .target = std::string("dev/") + device.name,
                     .source = std::string("/dev/") + device.name,
                     .why = "no state that another sandbox could see",
                     .mode = 0666,
                     .major = 1,
                     .minor = device.minor});
  }
  steps.push_back(symlink("dev/fd", "/proc/self/fd", "POSIX shells"));
  steps.push_back(symlink("dev/stdin", "/proc/self/fd/0", "POSIX shells"));
  steps.push_back(symlink("dev/stdout", "/proc/self/fd/1", "POSIX shells"));
  steps.push_back(symlink("dev/stderr", "/proc/self/fd/2", "POSIX shells"));
  steps.push_back(symlink("dev/ptmx", "pts/ptmx", "makes a terminal, in the sandbox's own devpts"));
  steps.push_back(directory("dev/shm", "mount point"));
  steps.push_back(directory("dev/pts", "mount point"));
  steps.push_back(
      {.op = Op::kSeal, .target = "dev", .why = "nothing can be added", .attributes = kReadOnly});
}

void addMaskSources(std::vector<MountStep>& steps) {
  constexpr std::string_view kWhy = "covers what of /proc is the host's";
  steps.push_back(directory("run", "the service's own, for what is not the image's"));
  steps.push_back(directory("run/masked", kWhy));
  steps.push_back(symlink("run/secrets", wire::kSecretsPlace, "files of secrets, in memory"));
  steps.push_back(directory(kLower, "where layers are put together"));
  steps.push_back(directory(kSkeleton, "mount point"));
  steps.push_back(directory(kEmptyLayer, "mount point"));
  steps.push_back({.op = Op::kNew,
                   .target = kEmptyLayer,
                   .source = "tmpfs",
                   .why = "overlayfs wants a second layer",
                   .options = {{"size", "4k"}, {"nr_inodes", "1"}, {"mode", "755"}},
                   .attributes = kReadOnly | kNoSuid | kNoDev | kNoExec});
  steps.push_back(file(kMaskFile, "", kWhy, 0));
  steps.push_back(directory(kMaskDirectory, kWhy, 0));
  steps.push_back(directory(kProcSys, "stands in for /proc/sys"));
  for (const char* name : kProcSysKept) {
    auto value = base::readFile(std::string("/proc/sys/") + name, 4096);
    if (!value) continue;
    const std::string path = std::string(kProcSys) + "/" + name;
    for (size_t at = path.find('/', sizeof kProcSys); at != std::string::npos;
         at = path.find('/', at + 1)) {
      steps.push_back(directory(path.substr(0, at), "stands in for /proc/sys"));
    }
    steps.push_back(file(path, *std::move(value), "asked for by common programs"));
  }
}

// The paragraphs of the first `count` processors of /proc/cpuinfo, or the whole file if there are
// fewer.
std::string firstProcessors(const std::string& cpuinfo, uint32_t count) {
  size_t end = 0;
  for (uint32_t i = 0; i < count && end != std::string::npos; ++i)
    end = cpuinfo.find("\n\n", end == 0 ? 0 : end + 2);
  return end == std::string::npos ? cpuinfo : cpuinfo.substr(0, end + 2);
}

// /proc/stat of a freshly booted machine: a sandbox must not see how busy the host is.
std::string statOf(uint32_t cpus) {
  constexpr std::string_view kTimes = " 1 0 1 100 0 0 0 0 0 0\n";
  std::string text = "cpu " + std::string(kTimes);
  for (uint32_t i = 0; i < cpus; ++i)
    text += "cpu" + std::to_string(i) + std::string(kTimes);
  return text + "ctxt 1\nbtime " + std::to_string(base::wallMicros() / 1'000'000) +
         "\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n";
}

void addShares(std::vector<MountStep>& steps) {
  constexpr std::string_view kWhy = "what of the processors is a sandbox's share";
  const auto cpuinfo = base::readFile("/proc/cpuinfo", size_t{4} << 20);
  if (!cpuinfo) return;
  const uint32_t all = std::max(1U, std::thread::hardware_concurrency());
  steps.push_back(directory(kCpus, kWhy));
  for (uint32_t cpus = 1; cpus <= std::min(all, kMostShownCpus); ++cpus) {
    const std::string path = std::string(kCpus) + "/" + std::to_string(cpus);
    steps.push_back(directory(path, kWhy));
    steps.push_back(file(path + "/cpuinfo", firstProcessors(*cpuinfo, cpus), kWhy));
    steps.push_back(file(path + "/stat", statOf(cpus), kWhy));
  }
}

// The store of dependency layers, from which becomeLayers() serves sandboxes, and the places where
// layers appear.
void addLayers(std::vector<MountStep>& steps, const RootSource& source) {
  if (source.layers.empty()) return;
  constexpr std::string_view kWhy = "dependency layers, for sandboxes that get one";
  steps.push_back(directory(kLayersHidden, kWhy, 0700));
  steps.push_back(directory(kLayersMount, kWhy));
  steps.push_back({.op = Op::kBind,
                   .target = kLayersMount,
                   .source = source.layers,
                   .why = kWhy,
                   .attributes = kReadOnly | kNoSuid | kNoDev});
  steps.push_back(directory("run/deps", kWhy));
  for (const LayerPlaceNames& place : kLayerPlaceNames) {
    const std::string target(place.target);
    const std::string link(place.link);
    steps.push_back(directory(target, "mount point of a dependency layer"));
    struct stat status{};
    const std::string path = source.image_root + "/" + link;
    if (link.empty() || (source.whole && ::lstat(path.c_str(), &status) == 0)) continue;
    steps.push_back({.op = Op::kSymlink,
                     .target = link,
                     .source = target + "/" + link,
                     .why = "leads into a dependency layer"});
  }
}

void addAhead(std::vector<MountStep>& steps, const std::vector<RootSource::File>& files) {
  constexpr std::string_view kWhy = "read by interpreters that are started ahead of their code";
  if (files.empty()) return;
  steps.push_back(directory(kAhead, kWhy));
  for (const RootSource::File& each : files)
    steps.push_back(file(std::string(kAhead) + "/" + each.name, each.content, kWhy));
}

}  // namespace

std::string meminfoOf(uint64_t bytes) {
  const std::string all = std::to_string(bytes / 1024) + " kB\n";
  std::string text;
  for (const char* name : {"MemTotal", "MemFree", "MemAvailable"})
    text += std::string(name) + ": " + all;
  for (const char* name :
       {"Buffers", "Cached", "SwapCached", "Active", "Inactive", "SwapTotal", "SwapFree", "Dirty",
        "Writeback", "AnonPages", "Mapped", "Shmem", "Slab", "SReclaimable", "SUnreclaim"})
    text += std::string(name) + ": 0 kB\n";
  return text;
}

std::vector<MountStep> rootSteps(const RootSource& source) {
  std::vector<MountStep> steps;
  steps.push_back({.op = Op::kNew,
                   .target = "",
                   .source = "tmpfs",
                   .why = "the skeleton",
                   .options = {{"size", "32m"}, {"nr_inodes", "16k"}, {"mode", "755"}},
                   .attributes = kNoSuid | kNoDev});
  addMaskSources(steps);
  addShares(steps);
  addAhead(steps, source.ahead);
  steps.push_back(directory("var", "only for /var/tmp, and what an image has there"));
  steps.push_back(directory("home", "only for /home/user, and what an image has there"));
  if (source.whole) {
    addWhole(steps, source);
  } else {
    addTopLevel(steps, source);
    hideConfiguration(steps, source);
  }
  addLayers(steps, source);
  addEtc(steps, source);
  addDevices(steps);
  steps.push_back(directory("proc", "mount point"));
  for (const char* name : {"workspace", "home/user", "tmp"})
    steps.push_back(directory(name, "mount point"));
  steps.push_back(symlink("var/tmp", "../tmp", "used by compilers"));
  if (source.proc) {
    steps.push_back({.op = Op::kNew,
                     .target = "proc",
                     .source = "proc",
                     .why = "the spawner's own; a sandbox's covers it",
                     .attributes = kNoSuid | kNoDev | kNoExec});
  }
  steps.push_back(
      {.op = Op::kSeal, .target = "", .why = "nothing can be changed", .attributes = kReadOnly});
  if (source.layered) {
    steps.push_back(place(Op::kPlace, ".", kSkeleton, "the layer of the sandboxes' own roots"));
  }
  steps.push_back(pivot());
  return steps;
}

std::vector<MountStep> ownRootSteps(const std::vector<MountStep>& root,
                                    const std::vector<MountStep>& proc) {
  constexpr std::string_view kWhy = "hides who else uses the image's files";
  std::vector<MountStep> steps;
  for (const MountStep& step : root) {
    if (!isOverlay(step)) continue;
    const std::string& layers = step.options.front().second;
    steps.push_back(overlay(step.target, layers.substr(0, layers.find(':')), kWhy, "/"));
  }
  // The layers lack the mounts above them in the root, so repeat the masks.
  if (!steps.empty()) std::ranges::copy_if(root, std::back_inserter(steps), isMask);
  if (steps.empty()) return proc;
  steps.insert(steps.begin(), overlay("", kSkeleton, "a root of its own", "/"));
  steps.push_back({.op = Op::kBind, .target = "dev", .source = "/dev", .why = "the devices"});
  steps.insert(steps.end(), proc.begin(), proc.end());
  steps.push_back(pivot());
  return steps;
}

base::json::object toJsonObject(const MountStep& step) {
  static constexpr std::string_view kNames[] = {"mount",     "bind",   "rbind",   "bind", "mask",
                                                "directory", "file",   "symlink", "copy", "device",
                                                "remount",   "attach", "pivot"};
  base::json::object object;
  object["op"] = kNames[static_cast<size_t>(step.op)];
  object["target"] = "/" + step.target;
  if (step.op == Op::kNew || step.op == Op::kAttach) {
    object["type"] = step.source;
  } else if (!step.source.empty()) {
    const bool inside = step.op == Op::kPlace || step.op == Op::kMask;
    object["source"] = (inside ? "/" : "") + step.source;
  }
  std::string options = linux::attributeNames(step.attributes);
  for (const auto& [key, value] : step.options)
    options += (options.empty() ? "" : ",") + key + "=" + value;
  if (!options.empty()) object["options"] = options;
  object["why"] = step.why;
  return object;
}

}  // namespace cloister::runtime
