// SPDX-License-Identifier: Apache-2.0
// Live: one sandbox's hold on the machine, from its spawn until nothing of it is left: first
// process, cgroup, host uids, socket. Shared between the Sandbox and the coroutine that buries it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/signal.h"
#include "base/clock.h"
#include "base/fd.h"
#include "linux/cgroup.h"
#include "model/limits.h"
#include "model/outcome.h"
#include "sandbox/box/guest_words.h"
#include "sandbox/box/housing.h"
#include "sandbox/box/runner_channel.h"
#include "sandbox/host/cpu_shares.h"
#include "sandbox/host/host.h"

namespace cloister::runtime {

// How long whoever removes a sandbox waits for it: a process in the kernel cannot be killed while
// it waits for a disk that does not answer.
inline constexpr auto kBurialPatience = std::chrono::seconds(20);

class Live : public Housing,
             public LockHolder,
             public CpuSharer,
             public std::enable_shared_from_this<Live> {
 public:
  struct Parts {
    std::shared_ptr<ProcessHost> host;
    std::shared_ptr<Spawner> root;         // with which it ends
    std::shared_ptr<Spawner> spawner;      // that made it: the same, or a zygote
    std::unique_ptr<linux::Cgroup> group;  // nullptr where there are none
    uint32_t slot = 0;
    model::Limits limits;
    std::shared_ptr<const Guest> guest;          // nullptr: on the host's kernel alone
    bool resumed = false;                        // its guest begins as a template
    std::chrono::milliseconds patience{30'000};  // ProcessConfig::runner_patience
    // Of one beside a session's (pool_beside.cc): that, whose uids and workspace it has, and in
    // whose group its own is.
    std::shared_ptr<Live> session{};
  };
  Live(boost::asio::any_io_executor executor, Parts parts);
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;
  ~Live() override = default;

  // Its disk, made now and held until bury(): the mount of it, for who spawns it.
  Task<Result<int>> takeDisk(const SandboxSpec& spec);
  // Once spawned.
  void adopt(Fd pidfd, Fd runner_socket);
  // What its guest writes on `pipe` is heard until its end: one that says it has stopped is killed.
  void hear(Fd pipe);
  // From now on its programs may hold only so many locks on files; with a guest they are of that.
  void watchLocks();
  [[nodiscard]] pid_t firstProcess() const override;
  void endFor(const LocksOver& locks) override;
  [[nodiscard]] const std::optional<LocksOver>& locksOver() const override { return locks_over_; }
  // Its processor is shared out with others' from now on, until it is buried; not where there is no
  // control group.
  void shareCpu(CpuShares& shares, const std::string& owner, uint32_t together);
  [[nodiscard]] uint64_t cpuMicros() const override { return rawUsage().cpu_micros; }
  [[nodiscard]] uint32_t cpuMost() const override { return groupLimits(parts_.limits).cpu_millis; }
  bool giveCpu(uint32_t millis) override;
  // With a guest's last words.
  [[nodiscard]] std::string lost(std::string what) const override;
  // As Guest::failedByChance, of what its guest has said.
  [[nodiscard]] bool failedByChance() const;
  // What it has used until now is not the program's; what it has read, only where that is asked
  // for, which takes a look at each process.
  void settle();
  void settleIo() { io_before_ = rawIo(); }
  [[nodiscard]] base::Monotonic settledAt() const { return settled_at_; }
  void setAhead(Ahead ahead) { ahead_ = ahead; }
  [[nodiscard]] Ahead ahead() const override { return ahead_; }

  [[nodiscard]] const boost::asio::any_io_executor& executor() const override { return executor_; }
  [[nodiscard]] const model::Limits& limits() const override { return parts_.limits; }
  [[nodiscard]] RunnerChannel& channel() override { return *channel_; }
  [[nodiscard]] std::chrono::milliseconds patience() const override;
  // How long it may take to greet.
  [[nodiscard]] std::chrono::milliseconds startPatience() const;
  [[nodiscard]] const linux::Cgroup* group() const override { return parts_.group.get(); }

  [[nodiscard]] const std::shared_ptr<Spawner>& root() const { return parts_.root; }
  [[nodiscard]] const std::shared_ptr<Spawner>& spawner() const { return parts_.spawner; }
  // Its first process lives, and nothing has been heard from inside that was not asked for.
  [[nodiscard]] bool waiting() const;
  // Takes the limits of the one run it is claimed for; what is built in (SandboxSpec) stays.
  Result<> limit(const model::Limits& limits);

  [[nodiscard]] bool toldFromInside() const override { return !parts_.group || parts_.guest; }
  [[nodiscard]] bool countedInside() const override {
    return parts_.guest && parts_.guest->counts();
  }
  [[nodiscard]] bool countsProcesses() const override { return !parts_.guest; }

  [[nodiscard]] bool resumed() const { return parts_.resumed; }

  // The guest that it has, or nullptr, and what is built into a sandbox within it.
  [[nodiscard]] const Guest* guest() const { return parts_.guest.get(); }
  [[nodiscard]] SandboxSpec specWithin(const model::Limits& limits) const;

  // A group within the sandbox's (linux::Cgroup::split), held until it is given back; nullptr where
  // there are none, or a guest's processes are not the host's. The next one is made in a lull, in
  // which those given back are removed; one with processes in it stays until it has none, or goes
  // with the sandbox: whoever holds it then asks a group that is gone, which says 0.
  Result<std::shared_ptr<linux::Cgroup>> split();
  void giveBack(const std::shared_ptr<linux::Cgroup>& part);

  // Whether programs can be stopped from outside, where nothing inside can let them go on.
  [[nodiscard]] bool canFreeze() const;
  // Stops all that programs have started until now: in each group that was split off, whoever has
  // given it back, or until `over`. kUnavailable: not in time. thaw() in any case.
  Task<Result<>> freeze(std::function<bool()> over);
  void thaw();

  // For one beside it: a group within the sandbox's, with limits of its own; nullptr where there
  // are none. It ends with the sandbox.
  Result<std::unique_ptr<linux::Cgroup>> groupBeside(const linux::CgroupLimits& limits);
  // From now on `other` ends before it, and what that moves from and to storage is its own, too.
  void endsWith(const std::shared_ptr<Live>& other);
  // Of one beside a session's, whose program has ended and has moved `known`: the session's from
  // now on.
  void handOverIo(linux::IoBytes known);
  [[nodiscard]] uint32_t slot() const { return parts_.slot; }

  // The runner's next frame, for which it has startPatience().
  Task<Result<RunnerFrame>> nextFrame();

  [[nodiscard]] int pidfd() const { return pidfd_.get(); }
  // What it may have of memory, all told; and as much again until what is returned has gone. Where
  // that cannot be taken back, it is killed.
  [[nodiscard]] uint64_t memoryBytes() const;
  Result<std::shared_ptr<void>> lendMemory();

  // SIGKILL to the first process, with which the kernel ends its whole pid namespace.
  void kill() override;
  // kill(), then waits until every process is gone, removes the cgroup and the disk and gives the
  // uids back. What takes longer than kBurialPatience goes on by itself, and this fails; so it does
  // while the cgroup stays busy, and nobody has the uids before that is gone. Idempotent; a second
  // caller does not wait.
  Task<Result<>> bury();

  [[nodiscard]] const linux::CgroupUsage& before() const override { return before_; }
  // Where there is no cgroup, the sum over its processes now. A guest
  // kernel's memory from before settle() does not count, nor do its threads; what it counts by
  // itself counts instead.
  [[nodiscard]] linux::CgroupUsage usage() const override;
  // Without what it took before it was ready for its first program.
  [[nodiscard]] linux::IoBytes io() const override;
  [[nodiscard]] uint64_t workspaceBytes() const override {
    if (parts_.session) return parts_.session->workspaceBytes();
    return disk_ ? parts_.limits.disk_bytes : model::scratchBytes(parts_.limits);
  }
  // What a session's sandbox has used so far, and holds now, kernels and all that was left running
  // included.
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
  std::shared_ptr<Disk> disk_;  // nullptr: what is writable is in memory
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
  std::optional<uint32_t> shared_cpu_;  // of a processor, where others share it (giveCpu)
  std::shared_ptr<void> cpu_place_;     // among those
  boost::asio::steady_timer lull_;
  Fd pidfd_;
  [[nodiscard]] linux::CgroupUsage rawUsage() const;
  [[nodiscard]] linux::IoBytes rawIo() const;

  linux::CgroupUsage before_;
  linux::IoBytes io_before_;
  mutable linux::IoBytes io_most_;
  linux::IoBytes io_beside_;  // of those beside it that have ended
  bool io_handed_over_ = false;
  uint64_t guest_memory_ = 0;
  mutable uint64_t memory_most_ = 0;  // at a look of used(): no cgroup, no peak
  mutable uint32_t pids_most_ = 0;    // likewise
  Counts told_;                       // by a guest that counts
  base::Monotonic settled_at_{};
  pid_t pid_ = -1;  // only where there is no cgroup
  std::optional<RunnerChannel> channel_;
  std::shared_ptr<GuestWords> words_;  // of a guest
  Ahead ahead_ = Ahead::kNone;
  std::shared_ptr<LockWatch> lock_watch_;
  std::optional<LocksOver> locks_over_;
  bool burying_ = false;
  std::optional<Result<>> removed_;  // once it is, or cannot be
  async::Signal buried_;             // likewise
};

}  // namespace cloister::runtime
