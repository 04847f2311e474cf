// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/host.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <thread>
#include <tuple>
#include <utility>

#include <grp.h>

#include "base/file.h"
#include "base/log.h"
#include "confine/image_links.h"
#include "linux/credentials.h"
#include "linux/message.h"
#include "linux/users.h"
#include "sandbox/host/door_probe.h"
#include "sandbox/host/image_digest.h"
#include "sandbox/host/shipped_etc.h"
#include "sandbox/host/zygote_files.h"
#include "wire/node.h"

namespace cloister::runtime {

using State = model::Finding::State;

Result<std::shared_ptr<ProcessHost>> ProcessHost::start(const ProcessConfig& config) {
  std::shared_ptr<ProcessHost> host(new ProcessHost(config));
  TRY(host->probe());
  for (uint32_t slot = config.max_sandboxes; slot > 0; --slot)
    host->free_slots_.push_back(slot - 1);
  return host;
}

std::shared_ptr<ProcessHost> ProcessHost::survey(const ProcessConfig& config) {
  constexpr const char* kRemedy =
      "allow user namespaces and mounts: sysctl user.max_user_namespaces, on Debian and Ubuntu "
      "also kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0; "
      "in a container see docs/operations.md, \"Run in a container\"";
  std::shared_ptr<ProcessHost> host(new ProcessHost(config));
  if (auto probed = host->probe(); !probed) {
    host->note("namespaces", State::kMissing, probed.error().message, kRemedy);
  }
  return host;
}

Result<> ProcessHost::probe() {
  plan_.confinement.runner = TRY(linux::sealedProgram(config_.runner));
  plan_.program.reset(::open(config_.spawner.c_str(), O_RDONLY | O_CLOEXEC));
  if (!plan_.program) return failErrno("opening " + config_.spawner);
  linux::SeccompProgram seccomp = TRY(linux::loadSeccomp(config_.seccomp_policy));
  plan_.confinement.filter = std::move(seccomp.filter);
  seccomp_ = std::move(seccomp.description);
  proc_steps_ = procSteps(findProcMasks());
  plan_.confinement.landlock = landlockRules();
  plan_.confinement.landlock_abi = linux::landlockAbi();
  if (const int abi = plan_.confinement.landlock_abi; abi > 0) {
    note("landlock", State::kOk, "ABI " + std::to_string(abi), "");
  } else {
    note("landlock", State::kReduced, "not available", "boot with lsm=landlock,... (Linux 5.13)");
    weakened_.emplace_back("no Landlock: file access rests on mounts and permissions alone");
  }
  note("seccomp", State::kOk, config_.seccomp_policy, "");
  probeIdentity();
  probeCgroups();
  probeDisks();
  for (const auto probe : {probeDoor, probeVeth, probeTap})
    findings_.push_back(probe(rootless_));
  readAlone();
  return startSpawner();
}

namespace {

bool hasExtraGroups() {
  gid_t groups[64];
  const int count = ::getgroups(64, groups);
  return count < 0 || std::any_of(groups, groups + count, [](gid_t g) { return g != ::getegid(); });
}

}  // namespace

void ProcessHost::probeIdentity() {
  const auto bit = [](int capability) { return uint32_t{1} << capability; };
  const bool is_root = ::geteuid() == 0;
  rootless_ = !is_root || !linux::hasCapabilities(bit(CAP_SYS_ADMIN));
  plan_.rootless = rootless_;
  // CAP_SETFCAP: to map root itself, too (user_namespaces(7)).
  const bool maps = is_root && linux::hasCapabilities(bit(CAP_SETUID) | bit(CAP_SETGID) |
                                                      (rootless_ ? bit(CAP_SETFCAP) : 0));
  const uint64_t ids = uint64_t{config_.max_sandboxes} * config_.uids_each + 1;
  own_uids_ = maps && linux::hasIds(config_.uid_base, ids);
  plan_.own_ids = own_uids_;
  if (own_uids_) {
    plan_.ids = {.first = config_.uid_base, .count = static_cast<uint32_t>(ids)};
    note("user ids", State::kOk,
         std::to_string(config_.uid_base) + " and following, " + std::to_string(config_.uids_each) +
             " for each sandbox",
         "");
    return;
  }
  weakened_.emplace_back("one host uid for all sandboxes");
  note("user ids", State::kReduced, "all sandboxes run as host uid " + std::to_string(::geteuid()),
       is_root ? "give the container more ids (subuid(5)), and CAP_SETUID, CAP_SETGID, CAP_SETFCAP"
               : "run cloister-node as root");
  if (rootless_ && hasExtraGroups()) {
    weakened_.emplace_back("supplementary groups of the service's user remain");
  }
}

void ProcessHost::probeCgroups() {
  auto tree = linux::CgroupTree::open(config_.cgroup_parent);
  if (!tree) {
    weakened_.emplace_back(
        "no cgroup: memory and cpu time are limited by polling, processes without a word, cpu "
        "share not at all");
    note("cgroups", State::kReduced, tree.error().message,
         "run as root, or as a systemd service with Delegate=yes");
    return;
  }
  cgroups_ = *std::move(tree);
  std::string missing;
  for (const std::string& name : cgroups_->missing()) {
    weakened_.push_back("no cgroup controller " + name);
    missing += " without " + name;
  }
  note("cgroups", missing.empty() ? State::kOk : State::kReduced,
       std::string(cgroups_->version()) + missing,
       missing.empty() ? "" : "mount the missing controllers");
}

void ProcessHost::probeDisks() {
  disks_ = Disks::open(config_.disk);
  findings_.push_back(disks_->finding());
}

Result<> ProcessHost::checkDisk(const model::Limits& limits, const Guest* guest) const {
  if (!onDisk(limits)) return {};
  const std::string asked = "a workspace of " + std::to_string(limits.disk_bytes >> 20) +
                            " MiB does not fit memory_mb and is for disk: ";
  if (guest != nullptr) {
    return fail(Code::kUnsupported, asked + guest->name() +
                                        " has no workspaces on disk; ask for "
                                        "less disk_mb, more memory_mb, or the runtime process");
  }
  if (auto shape = linux::checkShape({limits.disk_bytes, limits.inodes}); !shape) {
    return fail(Code::kUnsupported, asked + shape.error().message);
  }
  const model::Finding& found = disks_->finding();
  if (found.state == State::kOk) return {};
  return fail(Code::kUnsupported, asked + "this node has none: " + found.detail + "; " +
                                      found.remedy + ", or ask for less disk_mb or more memory_mb");
}

std::shared_ptr<LockWatch> ProcessHost::lockWatch(const boost::asio::any_io_executor& executor) {
  auto watch = lock_watch_.lock();
  if (!watch) {
    watch = std::make_shared<LockWatch>(executor, config_.lock_watch);
    lock_watch_ = watch;
  }
  return watch;
}

Task<Result<std::shared_ptr<Disk>>> ProcessHost::makeDisk(boost::asio::any_io_executor executor,
                                                          const SandboxSpec& spec) const {
  const uint32_t owner = spec.ids.outside;
  auto disk = co_await disks_->make(
      std::move(executor), {spec.scratch_bytes, spec.scratch_inodes},
      {.attributes = spec.runs_own ? 0 : linux::kNoExec, .uid = owner, .gid = owner});
  if (!disk) co_return std::unexpected(std::move(disk).error().within("making a disk workspace"));
  co_return disk;
}

// Without these files an interpreter waits in the usual way.
void ProcessHost::readAlone() {
  if (config_.guests.empty() || config_.interpreters.empty()) return;
  auto files = zygoteFiles(config_.interpreters.front());
  if (!files) {
    base::log(base::Level::kWarn, "no interpreter waits alone",
              {{"reason", files.error().message}});
    return;
  }
  for (ZygotePlan::File& each : *files)
    alone_.push_back({std::move(each.name), std::move(each.content)});
}

bool ProcessHost::waitsAlone(const std::vector<std::string>& argv,
                             const std::vector<std::string>& env) const {
  return !alone_.empty() && argv == config_.interpreters.front().argv &&
         std::ranges::none_of(
             env, [](const std::string& variable) { return variable.starts_with("PYTHONPATH="); });
}

std::vector<MountStep> ProcessHost::rootOf(const std::string& image_path) const {
  RootSource source{
      .image_root = config_.image_root, .layered = layered_, .proc = proc_, .ahead = alone_};
  if (image_path.empty()) {
    source.etc = etc_;
  } else {
    source.image_root = image_path;
    source.whole = true;
  }
  source.layers = config_.layers;
  for (const LanguageCommand& each : config_.languages) {
    if (!each.ahead_env.empty()) source.ahead.push_back({each.language, each.ahead_text});
  }
  return rootSteps(source);
}

Result<std::shared_ptr<Spawner>> ProcessHost::startSpawner(const std::string& image_path) {
  if (image_path.empty()) etc_ = shippedEtc(config_.image_root);
  plan_.root = rootOf(image_path);
  const std::vector<MountStep> none;
  plan_.confinement.root = ownRootSteps(plan_.root, proc_ ? proc_steps_ : none);
  return TRY(Spawner::start(plan_));
}

// Some machines refuse part of a root: each is then made without, and the results say so.
Result<> ProcessHost::startSpawner() {
  auto spawner = startSpawner("");
  const std::string why = spawner ? "" : spawner.error().message;
  constexpr std::pair<bool, bool> kLesser[] = {{false, true}, {true, false}, {false, false}};
  for (const auto& [layered, proc] : kLesser) {
    if (spawner) break;
    std::tie(layered_, proc_) = std::pair(layered, proc);
    spawner = startSpawner("");
  }
  if (!spawner) return fail(Code::kUnsupported, why);
  noteRoot(why);
  root_ = std::make_shared<Root>([this] { return startSpawner(""); }, *std::move(spawner));
  return {};
}

// `why`: the reason against a complete root, if it is not.
void ProcessHost::noteRoot(const std::string& why) {
  const bool is_root = ::geteuid() == 0;
  if (!layered_) {
    weakened_.emplace_back(
        "no overlayfs: mountinfo tells where the image lies, and sandboxes learn which of its "
        "files others open");
    note("overlayfs", State::kReduced, why, "have Linux 5.11, where users may mount overlayfs");
  }
  if (!proc_) {
    config_.guests.clear();  // they need /proc, and so do interpreters that wait for copies
    config_.interpreters.clear();
    alone_.clear();
    weakened_.emplace_back(
        "no /proc in sandboxes: programs that read it fail, processes that a program of a session "
        "leaves behind end with the session only, and inotify watches have no limit of their own");
    note("proc", State::kReduced, why,
         "the container engine covers parts of /proc: use --security-opt systempaths=unconfined "
         "with Docker and Podman, procMount: Unmasked with Kubernetes, or CAP_SYS_ADMIN");
  }
  if (is_root && rootless_) {
    note("namespaces", State::kReduced, "in a user namespace: root lacks CAP_SYS_ADMIN",
         "give the container CAP_SYS_ADMIN, as deploy/compose.yaml does");
  } else {
    note("namespaces", State::kOk, is_root ? "by root" : "by an ordinary user", "");
  }
}

Result<std::shared_ptr<Root>> ProcessHost::makeRoot(std::string path) {
  auto spawner = TRY(startSpawner(path));
  return std::make_shared<Root>([this, path = std::move(path)] { return startSpawner(path); },
                                std::move(spawner));
}

Result<std::unique_ptr<linux::Cgroup>> ProcessHost::makeGroup(const linux::CgroupLimits& limits) {
  if (!cgroups_) return nullptr;
  return cgroups_->create("sandbox-" + std::to_string(++groups_made_), limits);
}

std::optional<uint32_t> ProcessHost::takeSlot() {
  if (free_slots_.empty()) return std::nullopt;
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void ProcessHost::returnSlot(uint32_t slot) {
  free_slots_.push_back(slot);
}

// The zygotes' own id follows the sandboxes' ids, and no sandbox has that id.
SpawnRequest ProcessHost::zygoteRequest() const {
  SpawnRequest request;
  request.what = SpawnRequest::What::kZygote;
  request.spec.deny_setgroups = deniesGroups();
  const uint32_t count = config_.max_sandboxes * config_.uids_each;
  request.root = own_uids_ ? linux::IdMap{0, config_.uid_base + count, 1} : linux::IdMap{0, 0, 1};
  if (own_uids_) request.rest = {1, config_.uid_base, count};
  return request;
}

linux::IdMap ProcessHost::idsInZygote(uint32_t slot) const {
  if (!own_uids_) return {kSandboxUid, 0, 1};
  return {kSandboxUid, 1 + slot * config_.uids_each, config_.uids_each};
}

Result<Fd> ProcessHost::zygotePlan(const ZygotePlan& plan, const Spawner& spawner) const {
  return linux::sealedData(encodeZygotePlan(plan, plan_.confinement, spawner.ownRoot()));
}

bool ProcessHost::hasController(std::string_view name) const {
  return cgroups_ != nullptr &&
         std::ranges::none_of(cgroups_->missing(), [&](const auto& m) { return m == name; });
}

void ProcessHost::note(std::string name, State state, std::string detail, std::string remedy) {
  findings_.push_back({"isolation", std::move(name), state, std::move(detail), std::move(remedy)});
}

namespace {

void add(SandboxSpec& spec, int resource, uint64_t value) {
  spec.limits[spec.limit_count++] = {resource, value};
}

}  // namespace

SandboxPlan ProcessHost::planFor(const model::Limits& limits, uint32_t slot,
                                 const Guest* guest) const {
  SandboxPlan plan;
  // The runner does not count against the program's processes, and uses a little of its memory
  // limit.
  plan.cgroup = {limits.memory_bytes, limits.cpu_millis, limits.pids + 1};
  SandboxSpec& spec = plan.spec;
  spec.ids = {kSandboxUid, config_.uid_base + slot * config_.uids_each, config_.uids_each};
  if (!own_uids_) spec.ids = {kSandboxUid, 0, 1};
  spec.deny_setgroups = deniesGroups();
  spec.on_disk = onDisk(limits);
  spec.scratch_bytes = spec.on_disk ? limits.disk_bytes : model::scratchBytes(limits);
  spec.scratch_inodes = limits.inodes;
  if (guest == nullptr || guest->showsShare()) {
    constexpr uint32_t kMillis = 1000;
    spec.shown_memory = limits.memory_bytes;
    spec.shown_cpus = std::min((limits.cpu_millis + kMillis - 1) / kMillis,
                               std::max(1U, std::thread::hardware_concurrency()));
    spec.first_cpu = slot * spec.shown_cpus;
  }
  spec.nice = hasController("cpu") ? 0 : 10;
  add(spec, RLIMIT_NOFILE, limits.open_files);
  add(spec, RLIMIT_FSIZE, limits.file_bytes);
  // 1, not 0: with 0 the kernel still starts a core_pattern program (core(5)).
  add(spec, RLIMIT_CORE, 1);
  // Only a backstop for a single process, coarse so that most sandboxes are alike; the node watches
  // the sum.
  add(spec, RLIMIT_CPU, std::bit_ceil(static_cast<uint64_t>(limits.cpu_time.count()) / 1000 + 60));
  add(spec, RLIMIT_MEMLOCK, 64 << 10);
  add(spec, RLIMIT_MSGQUEUE, 64 << 10);
  add(spec, RLIMIT_SIGPENDING, 1024);
  add(spec, RLIMIT_NICE, 0);
  add(spec, RLIMIT_RTPRIO, 0);
  // Without the pids controller only: RLIMIT_NPROC would hide refusals from the controller.
  if (guest == nullptr && !hasController("pids")) add(spec, RLIMIT_NPROC, limits.pids + 1);
  // RLIMIT_DATA, since runtimes reserve far more address space (RLIMIT_AS) than they use.
  if (!hasController("memory")) add(spec, RLIMIT_DATA, limits.memory_bytes);
  if (guest != nullptr) guest->adjust(limits, spec, plan.cgroup);
  return plan;
}

void ProcessHost::addWalls(const std::string& walls, const Guest* guest, SandboxSpec& spec) const {
  if (walls.empty()) return;
  spec.walled = true;
  const auto decoded = wire::decodeWalls(walls);
  if (!decoded) return;  // the sandbox cannot decode the rules either, and does not start
  spec.runs_own = decoded->runs_own;
  if (guest != nullptr || plan_.confinement.landlock_abi > 0) spec.writes = decoded->writes;
}

namespace {

// For people: the paths that approvals opened, and which are created.
std::string textOfPlaces(const model::Walls& walls) {
  constexpr size_t kMostNamed = 8;
  std::string text;
  for (size_t i = 0; i < walls.writable.size() && i < kMostNamed; ++i) {
    const model::Walls::Writable& each = walls.writable[i];
    const bool made = (each.operations & ~model::kMayDelete) != 0;
    text += (i == 0 ? "approved: programs may change " : ", ") + each.path;
    text += each.beneath ? "/*" : "";
    text += !made          ? ""
            : each.beneath ? " (the directory is made if it is missing)"
                           : " (the file is made if it is missing)";
  }
  const size_t more = walls.writable.size() - std::min(walls.writable.size(), kMostNamed);
  return more == 0 ? text : text + " and " + std::to_string(more) + " more";
}

}  // namespace

std::vector<std::string> ProcessHost::weakenedWalls(const model::Walls& walls,
                                                    const Guest* guest) const {
  constexpr int kTruncates = 3;  // the first ABI that controls truncation
  if (walls.writes == model::Walls::Writes::kAll) return {};
  std::vector<std::string> weaker;
  const auto removes_alone = [](const auto& each) { return each.operations == model::kMayDelete; };
  if (guest != nullptr && std::ranges::any_of(walls.writable, removes_alone)) {
    weaker.push_back("approved, and not opened: " + guest->name() +
                     " cannot let programs remove files without letting them write");
  }
  if (guest == nullptr && plan_.confinement.landlock_abi < kTruncates) {
    weaker.emplace_back(
        "no Landlock of ABI 3: where the agent may write is not held by the kernel, or not whole");
  }
  if (!walls.writable.empty()) weaker.push_back(textOfPlaces(walls));
  return weaker;
}

namespace {

base::json::value describeWritable(const model::Walls::Writable& place) {
  base::json::array operations;
  for (const auto& [bit, name] :
       {std::pair(model::kMayWrite, "write"), std::pair(model::kMayCreate, "create"),
        std::pair(model::kMayDelete, "delete")}) {
    if ((place.operations & bit) != 0) operations.emplace_back(name);
  }
  base::json::value made = nullptr;
  if ((place.operations & ~model::kMayDelete) != 0) made = place.beneath ? "directory" : "file";
  return {{"path", place.path + (place.beneath ? "/*" : "")},
          {"operations", std::move(operations)},
          {"made_if_missing", std::move(made)}};
}

}  // namespace

// gVisor's two users are the first ids of the sandbox's range: root, who owns no file, and nobody.
SpawnRequest ProcessHost::requestFor(const SandboxSpec& spec, const Guest* guest) const {
  constexpr uint32_t kNobody = 65'534;
  SpawnRequest request;
  request.spec = spec;
  if (guest == nullptr) return request;
  request.what = guest->what();
  request.guest_fds = guest->fileCount() + filesOf(spec.guest_begins) + 1;
  if (spec.guest_link != 0) request.guest_fds += guest->linkFiles();
  if (request.what != SpawnRequest::What::kGvisor) return request;
  request.root = {0, spec.ids.outside, 1};
  if (own_uids_ && spec.ids.count > 1) request.rest = {kNobody, spec.ids.outside + 1, 1};
  return request;
}

base::json::object ProcessHost::describePlan(const model::Limits& limits, const model::Walls& walls,
                                             const Guest* guest,
                                             const std::string& image_path) const {
  SandboxPlan plan = planFor(limits, 0, guest);
  if (!walls.none()) addWalls(wire::encodeWalls(walls), guest, plan.spec);
  const auto list = [](const auto& items, auto&& convert) {
    base::json::array array;
    for (const auto& item : items)
      array.push_back(convert(item));
    return array;
  };
  const auto text = [](const std::string& s) { return base::json::value(s); };
  const auto step = [](const MountStep& s) { return base::json::value(toJsonObject(s)); };
  base::json::object object;
  object["runtime"] = guest == nullptr ? "process" : guest->name();
  object["node"] = config_.node;
  object["namespaces"] = list(namespaceNames(), text);
  const linux::IdMap& ids = plan.spec.ids;
  object["ids"] = {{"inside", ids.inside},
                   {"outside", own_uids_ ? ids.outside : ::geteuid()},
                   {"count", ids.count}};
  std::vector<MountStep> root = rootOf(image_path);
  const auto is_shipped = [](const MountStep& each) { return each.why == kShipped; };
  object["files_of_packages"] = std::ranges::count_if(root, is_shipped);
  std::erase_if(root, is_shipped);
  object["root"] = list(root, step);
  std::vector<MountStep> own = ownRootSteps(root, proc_ ? proc_steps_ : std::vector<MountStep>());
  if (guest == nullptr) {
    const auto share = shareSteps(plan.spec.shown_memory, plan.spec.shown_cpus);
    own.insert(own.end(), share.begin(), share.end());
  }
  const auto scratch = scratchStepsOf(plan.spec, -1, -1);
  own.insert(own.end(), scratch.begin(), scratch.end());
  object["mounts"] = list(own, step);
  base::json::object rlimits;
  for (uint32_t i = 0; i < plan.spec.limit_count; ++i)
    rlimits[linux::resourceName(plan.spec.limits[i].resource)] = plan.spec.limits[i].value;
  object["rlimits"] = rlimits;
  base::json::object cgroup{{"version", cgroups_ ? cgroups_->version() : "none"}};
  if (cgroups_) {
    for (const linux::CgroupValue& value : cgroups_->values(plan.cgroup))
      cgroup[value.file] = value.value;
  }
  object["cgroup"] = cgroup;
  object["hostname"] = "cloister";
  object["weakened"] = list(guest == nullptr ? weakened_ : weakenedIn(*guest), text);
  for (const std::string& weaker : weakenedWalls(walls, guest))
    object["weakened"].as_array().emplace_back(weaker);
  if (plan.spec.on_disk) {
    object["weakened"].as_array().emplace_back(kWeakerOnDisk);
    object["disk"] = {{"bytes", plan.spec.scratch_bytes}, {"inodes", plan.spec.scratch_inodes}};
  }
  object["walls"] = {
      {"hidden", list(walls.hidden, text)},
      {"shown", list(walls.shown, [](const auto& each) { return base::json::value(each.path); })},
      {"programs_without", list(walls.without, text)},
      {"programs_only", walls.only ? base::json::value(list(*walls.only, text)) : nullptr},
      {"executes_own_files", walls.runs_own},
      {"writes", model::writesName(walls.writes)},
      {"writable", list(walls.writable, describeWritable)}};
  if (guest != nullptr) {
    guest->describe(plan.spec, object);
    return object;
  }
  object["landlock"] = {
      {"abi", plan_.confinement.landlock_abi},
      {"rules", list(plan_.confinement.landlock, [](const linux::LandlockRule& rule) {
         return base::json::value{{"path", rule.path},
                                  {"access", linux::landlockAccessName(rule.access)}};
       })}};
  object["seccomp"] = seccomp_;
  object["capabilities"] = base::json::array();
  object["no_new_privs"] = true;
  return object;
}

std::vector<std::string> ProcessHost::weakenedIn(const Guest& guest) const {
  std::vector<std::string> all = weakened_;
  for (std::string& each : guest.weakened())
    all.push_back(std::move(each));
  return all;
}

// ---- the early half of the public interface ----------------------------------------------------

Result<std::shared_ptr<ProcessHost>> startProcessHost(const ProcessConfig& config) {
  return ProcessHost::start(config);
}

std::shared_ptr<ProcessHost> surveyProcessHost(const ProcessConfig& config) {
  return ProcessHost::survey(config);
}

void describe(const ProcessHost& host, model::NodeOffer& offer) {
  if (host.usable()) {
    offer.runtimes.emplace_back("process");
    for (const auto& guest : host.config().guests)
      offer.runtimes.push_back(guest->name());
  }
  offer.weakened = host.weakened();
  const std::string& image_root = host.config().image_root;
  offer.image_digest = keptImage(image_root, imageKey(image_root)).digest;
  offer.links = programLinks(image_root);
  offer.findings.insert(offer.findings.end(), host.findings().begin(), host.findings().end());
  offer.max_sandboxes = host.config().max_sandboxes;
}

}  // namespace cloister::runtime
