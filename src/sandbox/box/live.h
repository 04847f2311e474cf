// SPDX-License-Identifier: Apache-2.0
// Live: one sandbox's resources of the machine, from its spawn until nothing is left: first
// process, cgroup, host uids, socket. Shared between the Sandbox and the coroutine that removes the
// rest.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "linux/cgroup.h"
#include "model/limits.h"
#include "model/outcome.h"
#include "sandbox/box/door.h"
#include "sandbox/box/guest_words.h"
#include "sandbox/box/held_door.h"
#include "sandbox/box/housing.h"
#include "sandbox/box/runner_channel.h"
#include "sandbox/host/cpu_shares.h"
#include "sandbox/host/host.h"

namespace cloister::runtime {

// How long bury() waits: a process in the kernel cannot be killed during I/O to an unresponsive
// disk.
inline constexpr auto kBurialPatience = std::chrono::seconds(20);

class Live : public Housing,
             public LockHolder,
             public CpuSharer,
             public std::enable_shared_from_this<Live> {
 public:
  struct Parts {
    std::shared_ptr<ProcessHost> host;
    std::shared_ptr<Spawner> root;         // the sandbox ends with this spawner
    std::shared_ptr<Spawner> spawner;      // the maker of the sandbox: `root`, or a zygote
    std::unique_ptr<linux::Cgroup> group;  // nullptr without cgroups
    uint32_t slot = 0;
    model::Limits limits;
    std::shared_ptr<const Guest> guest;          // nullptr: on the host's kernel alone
    bool resumed = false;                        // its guest begins as a template
    std::chrono::milliseconds patience{30'000};  // ProcessConfig::runner_patience
    // For a sandbox beside a session's (pool_beside.cc): the session's sandbox, which lends its
    // uids and workspace, and whose cgroup contains this sandbox's.
    std::shared_ptr<Live> session{};
  };
  Live(boost::asio::any_io_executor executor, Parts parts);
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;
  ~Live() override = default;

  // Makes the sandbox's disk, held until bury(). Returns the mount for the spawner.
  Task<Result<int>> takeDisk(const SandboxSpec& spec);
  // Once spawned.
  void adopt(Fd pidfd, Fd runner_socket);
  // Reads the guest's console from `pipe` until its end. A guest whose output says that the guest
  // has stopped is killed.
  void hear(Fd pipe);
  // From now on, limits the file locks held by the sandbox's programs. A guest's locks are in the
  // guest and need no limit.
  void watchLocks();
  [[nodiscard]] pid_t firstProcess() const override;
  void endFor(const LocksOver& locks) override;
  [[nodiscard]] const std::optional<LocksOver>& locksOver() const override { return locks_over_; }
  // From now on until bury(), shares the processor with the owner's other sandboxes. Needs a
  // cgroup.
  void shareCpu(CpuShares& shares, const std::string& owner, uint32_t together);
  // A door that was opened ahead and is attached nowhere: it waits for its claim until bury().
  void keepDoor(DoorSockets sockets) { ready_door_ = std::move(sockets); }
  [[nodiscard]] bool hasDoor() const { return ready_door_.has_value(); }
  std::optional<DoorSockets> takeDoor() { return std::exchange(ready_door_, std::nullopt); }
  // From now on until bury(), which releases it, the sandbox's network.
  void holdDoor(std::shared_ptr<HeldDoor> door) { door_ = std::move(door); }
  // As long as the sandbox lives, keeps what the descriptor protects from removal.
  void hold(Fd protected_by) { held_.push_back(std::move(protected_by)); }
  [[nodiscard]] uint64_t cpuMicros() const override { return rawUsage().cpu_micros; }
  [[nodiscard]] uint32_t cpuMost() const override { return groupLimits(parts_.limits).cpu_millis; }
  bool giveCpu(uint32_t millis) override;
  // Includes the end of a guest's console output.
  [[nodiscard]] std::string lost(std::string what) const override;
  // Guest::failedByChance() for the guest's console output.
  [[nodiscard]] bool failedByChance() const;
  // Usage until now does not count as the program's. settleIo() does the same for storage traffic,
  // and is separate because of its cost: a look at each process.
  void settle();
  void settleIo() { io_before_ = rawIo(); }
  [[nodiscard]] base::Monotonic settledAt() const { return settled_at_; }
  void setAhead(Ahead ahead) { ahead_ = ahead; }
  [[nodiscard]] Ahead ahead() const override { return ahead_; }

  [[nodiscard]] const boost::asio::any_io_executor& executor() const override { return executor_; }
  [[nodiscard]] const model::Limits& limits() const override { return parts_.limits; }
  [[nodiscard]] RunnerChannel& channel() override { return *channel_; }
  [[nodiscard]] std::chrono::milliseconds patience() const override;
  // How long the runner may take to send its first frame.
  [[nodiscard]] std::chrono::milliseconds startPatience() const;
  [[nodiscard]] const linux::Cgroup* group() const override { return parts_.group.get(); }

  [[nodiscard]] const std::shared_ptr<Spawner>& root() const { return parts_.root; }
  [[nodiscard]] const std::shared_ptr<Spawner>& spawner() const { return parts_.spawner; }
  // Whether the first process lives and the sandbox has sent nothing unrequested.
  [[nodiscard]] bool waiting() const;
  // Takes the limits of the run that claims the sandbox. Limits built in (SandboxSpec) stay.
  Result<> limit(const model::Limits& limits);

  [[nodiscard]] bool toldFromInside() const override { return !parts_.group || parts_.guest; }
  [[nodiscard]] bool countedInside() const override {
    return parts_.guest && parts_.guest->counts();
  }
  [[nodiscard]] bool countsProcesses() const override { return !parts_.guest; }

  [[nodiscard]] bool resumed() const { return parts_.resumed; }

  // The sandbox's guest or nullptr, and the spec of a sandbox made within.
  [[nodiscard]] const Guest* guest() const { return parts_.guest.get(); }
  [[nodiscard]] SandboxSpec specWithin(const model::Limits& limits) const;

  // A child of the sandbox's cgroup (linux::Cgroup::split), valid until given back. nullptr without
  // cgroups, or with a guest, whose processes are not the host's. During a lull the next child is
  // made and returned children are removed. A child with processes left stays until empty or until
  // the sandbox ends; then reading the child gives 0.
  Result<std::shared_ptr<linux::Cgroup>> split();
  void giveBack(const std::shared_ptr<linux::Cgroup>& part);

  // Whether programs can be frozen from outside, so that no process inside can resume others.
  [[nodiscard]] bool canFreeze() const;
  // Freezes all programs started until now, in each split group including returned groups. Stops
  // early when `over` returns true. kUnavailable: timeout. Call thaw() in any case.
  Task<Result<>> freeze(std::function<bool()> over);
  void thaw();

  // A child of the sandbox's cgroup with its own limits, for a sandbox beside; nullptr without
  // cgroups. The child ends with the sandbox.
  Result<std::unique_ptr<linux::Cgroup>> groupBeside(const linux::CgroupLimits& limits);
  // From now on `other` ends before this sandbox, and counts its storage traffic here as well.
  void endsWith(const std::shared_ptr<Live>& other);
  // For a sandbox beside a session's: after its program has ended, adds the traffic `known` to the
  // session's.
  void handOverIo(linux::IoBytes known);
  [[nodiscard]] uint32_t slot() const { return parts_.slot; }

  // The runner's next frame, awaited for startPatience().
  Task<Result<RunnerFrame>> nextFrame();

  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  // memoryBytes(): the sandbox's memory limit, including any overhead. lendMemory(): doubles the
  // limit until the returned object is released. If the limit cannot be lowered again, the sandbox
  // is killed.
  [[nodiscard]] uint64_t memoryBytes() const;
  Result<std::shared_ptr<void>> lendMemory();

  // Sends SIGKILL to the first process, with which the kernel ends the whole pid namespace.
  void kill() override;
  // Calls kill(), waits until all processes are gone, removes the cgroup and the disk, and returns
  // the uids. Fails after kBurialPatience, while the removal continues in the background; also
  // fails while the cgroup stays busy. The uids are reused only after the cgroup is gone.
  // Idempotent; a second caller does not wait.
  Task<Result<>> bury();

  [[nodiscard]] const linux::CgroupUsage& before() const override { return before_; }
  // Without a cgroup, the sum over the current processes. For a guest, excludes the guest kernel's
  // memory before settle() and its threads, and includes the guest's own counts.
  [[nodiscard]] linux::CgroupUsage usage() const override;
  // Excludes traffic before the sandbox was ready for its first program.
  [[nodiscard]] linux::IoBytes io() const override;
  [[nodiscard]] uint64_t workspaceBytes() const override {
    if (parts_.session) return parts_.session->workspaceBytes();
    return disk_ ? parts_.limits.disk_bytes : model::scratchBytes(parts_.limits);
  }
  [[nodiscard]] WorkspaceState& workspaceState() override {
    return parts_.session ? parts_.session->workspaceState() : workspace_state_;
  }
  // Total usage of a session's sandbox, and its present memory, including interpreters and
  // background programs.
  [[nodiscard]] model::Usage used() const;
  [[nodiscard]] linux::CgroupEvents events() const override;

 private:
  [[nodiscard]] linux::CgroupLimits groupLimits(const model::Limits& limits) const;
  Result<> limitGroup(linux::CgroupLimits limits);
  static Task<void> remove(std::shared_ptr<Live> self);
  Task<Result<>> empty();
  void killBeside();
  Task<void> outlastBeside();
  Task<Result<>> waitForEnd();
  Task<Result<>> removeGroup();
  Task<void> outlastGroup();
  bool tryRemovingGroup();
  static Task<void> takeMemoryBack(std::shared_ptr<Live> self);
  Result<std::unique_ptr<linux::Cgroup>> makePart();
  void removeParts(bool all);
  void tidyInALull();

  boost::asio::any_io_executor executor_;
  Parts parts_;
  std::shared_ptr<Disk> disk_;  // nullptr: writable file systems are in memory
  struct Part {
    std::shared_ptr<linux::Cgroup> group;
    bool in_use = true;
    bool frozen = false;
  };
  std::vector<Part> split_;
  std::unique_ptr<linux::Cgroup> spare_part_;
  uint32_t split_count_ = 0;
  std::vector<std::weak_ptr<Live>> beside_;
  uint32_t lent_ = 0;                   // times as much again
  std::optional<uint32_t> shared_cpu_;  // thousandths of a processor when shared with others
                                        // (giveCpu)
  std::shared_ptr<void> cpu_place_;     // membership in the sharing
  std::shared_ptr<HeldDoor> door_;      // nullptr: no network
  std::optional<DoorSockets> ready_door_;
  std::vector<Fd> held_;  // until the sandbox is gone
  boost::asio::steady_timer lull_;
  Fd pidfd_;
  [[nodiscard]] linux::CgroupUsage rawUsage() const;
  [[nodiscard]] linux::IoBytes rawIo() const;

  linux::CgroupUsage before_;
  linux::IoBytes io_before_;
  mutable linux::IoBytes io_most_;
  linux::IoBytes io_beside_;  // traffic of ended sandboxes beside
  bool io_handed_over_ = false;
  uint64_t guest_memory_ = 0;
  mutable uint64_t memory_most_ = 0;  // at a look of used(): no cgroup, no peak
  mutable uint32_t pids_most_ = 0;    // as memory_most_
  Counts told_;                       // counts sent by a guest
  base::Monotonic settled_at_{};
  pid_t pid_ = -1;  // only without a cgroup
  std::optional<RunnerChannel> channel_;
  std::shared_ptr<GuestWords> words_;  // of a guest
  Ahead ahead_ = Ahead::kNone;
  WorkspaceState workspace_state_;
  std::shared_ptr<LockWatch> lock_watch_;
  std::optional<LocksOver> locks_over_;
  bool burying_ = false;
  std::optional<Result<>> removed_;  // set when removed, or when removal failed
  async::Signal buried_;             // notified at the same time
};

}  // namespace cloister::runtime
