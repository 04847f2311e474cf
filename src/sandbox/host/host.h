// SPDX-License-Identifier: Apache-2.0
// ProcessHost: the common parts of all sandboxes of a node. The spawner, the cgroup tree, the host
// user ids, and the detected features of this machine. Used from one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "confine/zygote_plan.h"
#include "linux/cgroup.h"
#include "model/limits.h"
#include "sandbox/host/config.h"
#include "sandbox/host/disks.h"
#include "sandbox/host/root.h"
#include "sandbox/host/spawner.h"

namespace cloister::runtime {

// The full plan of a sandbox before its creation: --dry-run prints the plan, a run carries it out.
struct SandboxPlan {
  SandboxSpec spec;
  linux::CgroupLimits cgroup;
};

class ProcessHost {
 public:
  static Result<std::shared_ptr<ProcessHost>> start(const ProcessConfig& config);
  // Looks without an intention to serve: a failure is a finding, the last one.
  static std::shared_ptr<ProcessHost> survey(const ProcessConfig& config);

  [[nodiscard]] const ProcessConfig& config() const { return config_; }
  // False for a survey of a machine that cannot make sandboxes.
  [[nodiscard]] bool usable() const { return root_ != nullptr; }
  [[nodiscard]] const std::vector<std::string>& weakened() const { return weakened_; }
  [[nodiscard]] std::vector<std::string> weakenedIn(const Guest& guest) const;
  [[nodiscard]] const std::vector<model::Finding>& findings() const { return findings_; }

  // The root of the node's own image, and its spawner.
  [[nodiscard]] const std::shared_ptr<Root>& root() const { return root_; }
  [[nodiscard]] const std::shared_ptr<Spawner>& spawner() const { return root_->spawner(); }
  // Makes the root of an imported image in directory `path`, which must outlive this host.
  Result<std::shared_ptr<Root>> makeRoot(std::string path);

  // A new cgroup for a sandbox; nullptr without usable cgroups.
  Result<std::unique_ptr<linux::Cgroup>> makeGroup(const linux::CgroupLimits& limits);

  // A host uid range, exclusive until given back; nullopt when all are taken.
  std::optional<uint32_t> takeSlot();
  void returnSlot(uint32_t slot);

  // The lock watch of all sandboxes, shared while at least one sandbox uses the watch.
  std::shared_ptr<LockWatch> lockWatch(const boost::asio::any_io_executor& executor);

  // Workspaces on disk.
  [[nodiscard]] const std::shared_ptr<Disks>& disks() const { return disks_; }
  [[nodiscard]] bool onDisk(const model::Limits& limits) const { return disks_->isFor(limits); }
  // Why a sandbox with these limits cannot be made here, with the remedy.
  [[nodiscard]] Result<> checkDisk(const model::Limits& limits, const Guest* guest) const;
  // The disk of a sandbox of `spec`.
  [[nodiscard]] Task<Result<std::shared_ptr<Disk>>> makeDisk(boost::asio::any_io_executor executor,
                                                             const SandboxSpec& spec) const;

  // Counts a sandbox as being removed during the lifetime of this object.
  class Dying {
   public:
    explicit Dying(ProcessHost& host) : host_(host) { host_.dying_++; }
    Dying(const Dying&) = delete;
    Dying& operator=(const Dying&) = delete;
    ~Dying() { host_.dying_--; }

   private:
    ProcessHost& host_;
  };
  [[nodiscard]] uint32_t dying() const { return dying_; }

  // The request and the plan for a zygote in the root of `spawner`, and a sandbox's ids within.
  [[nodiscard]] SpawnRequest zygoteRequest() const;
  [[nodiscard]] Result<Fd> zygotePlan(const ZygotePlan& plan, const Spawner& spawner) const;
  [[nodiscard]] linux::IdMap idsInZygote(uint32_t slot) const;

  // Whether kAhead has the files that let the interpreter of such a program wait alone in a guest.
  [[nodiscard]] bool waitsAlone(const std::vector<std::string>& argv,
                                const std::vector<std::string>& env) const;

  // `guest`: the sandbox's guest; nullptr for this kernel alone.
  [[nodiscard]] SandboxPlan planFor(const model::Limits& limits, uint32_t slot,
                                    const Guest* guest) const;
  // `image_path`: as for makeRoot(); "": the node's own image.
  [[nodiscard]] base::json::object describePlan(const model::Limits& limits,
                                                const model::Walls& walls, const Guest* guest,
                                                const std::string& image_path = {}) const;
  // Sets the spec's part of the confinement rules `walls` (encoded; "": none).
  void addWalls(const std::string& walls, const Guest* guest, SandboxSpec& spec) const;
  // The rules that this machine cannot enforce, and the paths opened by approvals, for the results.
  [[nodiscard]] std::vector<std::string> weakenedWalls(const model::Walls& walls,
                                                       const Guest* guest) const;
  // The spawn request for `spec`, without its descriptors.
  [[nodiscard]] SpawnRequest requestFor(const SandboxSpec& spec, const Guest* guest) const;

 private:
  explicit ProcessHost(ProcessConfig config) : config_(std::move(config)) {}
  Result<> probe();
  void probeCgroups();
  void probeIdentity();
  void probeDisks();
  void readAlone();
  Result<> startSpawner();
  void noteRoot(const std::string& why);
  Result<std::shared_ptr<Spawner>> startSpawner(const std::string& image_path);
  [[nodiscard]] std::vector<MountStep> rootOf(const std::string& image_path) const;
  // An id map of a single id needs it (user_namespaces(7)).
  [[nodiscard]] bool deniesGroups() const { return rootless_ && !own_uids_; }
  [[nodiscard]] bool hasController(std::string_view name) const;
  void note(std::string name, model::Finding::State state, std::string detail, std::string remedy);

  ProcessConfig config_;
  SpawnerPlan plan_;
  std::vector<MountStep> proc_steps_;           // of every sandbox
  base::json::object seccomp_;                  // description of the compiled filter
  std::unique_ptr<linux::CgroupTree> cgroups_;  // outlives the spawner, whose end ends the
                                                // sandboxes
  std::shared_ptr<Root> root_;
  std::shared_ptr<Disks> disks_;
  std::vector<RootSource::File> alone_;
  std::optional<std::vector<ShippedFile>> etc_;  // of the node's own image
  bool rootless_ = false;  // sandboxes are made in a user namespace of the node's
  bool own_uids_ = true;   // a host uid range for each sandbox
  bool layered_ = true;
  bool proc_ = true;  // each sandbox has a /proc
  std::vector<std::string> weakened_;
  std::vector<model::Finding> findings_;
  std::vector<uint32_t> free_slots_;
  std::weak_ptr<LockWatch> lock_watch_;
  uint64_t groups_made_ = 0;
  uint32_t dying_ = 0;
};

}  // namespace cloister::runtime
