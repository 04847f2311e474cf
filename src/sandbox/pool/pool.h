// SPDX-License-Identifier: Apache-2.0
// Pool: makes sandboxes, for each permit or ahead of a permit. A sandbox made ahead is as fresh as
// any other: nothing has run in the sandbox, and the sandbox is claimed once and never returned.
//
// Sandboxes are alike, and interchangeable, with the same built-in parts (file system, resource
// limits: SandboxSpec) and the same started interpreter, if any (Prestart). The cgroup's limits are
// written at the claim. The number kept ready of each kind follows demand. A claim without a ready
// sandbox, or with an interpreter still starting, adds one. A sandbox unclaimed through `idle` is
// given up. The first claim of a kind adds none, so a single run pays for no second sandbox. Beside
// demand, a minimum may be kept for each requested kind.
//
// While the machine is short of memory or processors (pressure.h) no sandbox is made ahead. While
// memory is short the pool removes ready sandboxes, starting with the least used kind. Shortage
// does not affect claims.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "async/signal.h"
#include "base/result.h"
#include "model/limits.h"
#include "model/pool_stats.h"
#include "runtime/runtime.h"
#include "sandbox/box/door.h"
#include "sandbox/box/live.h"
#include "sandbox/box/memory_image.h"
#include "sandbox/box/prestart.h"
#include "sandbox/host/groups.h"
#include "sandbox/host/host.h"
#include "sandbox/host/pressure.h"
#include "sandbox/host/spawn_queue.h"
#include "sandbox/pool/template.h"
#include "sandbox/pool/zygote.h"

namespace cloister::runtime {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  // The host's configuration gives the bounds: ready, ready_floor, ready_idle and pressure. With a
  // `guest` (nullptr: without), the guest gives the number of ready sandboxes. All pools of a root
  // share a `spawner`.
  Pool(boost::asio::any_io_executor executor, std::shared_ptr<ProcessHost> host,
       std::shared_ptr<PresentQueue> spawner, std::shared_ptr<const Guest> guest = nullptr);

  // Common properties of interchangeable sandboxes, besides the SandboxSpec.
  struct Alike {
    std::string key = {};    // of programs that may share a prestarted interpreter, or ""
    std::string walls = {};  // model::Walls, encoded; "" for none
    bool nests = false;      // SandboxSpec::nests
    uint32_t link = 0;       // SandboxSpec::guest_link

    friend bool operator==(const Alike&, const Alike&) = default;
  };

  // A sandbox whose runner waits for work: a ready one, the next to become ready, or a new one.
  // kUnavailable when all slots are in use.
  Task<Result<std::shared_ptr<Live>>> claim(model::Limits limits, Alike alike);
  // Sets the program of such claims, which sandboxes made ahead then start in advance.
  void learn(const model::Limits& limits, const Alike& alike, Prestart prestart);

  // The memory of a sandbox during Switchboard::rest().
  Task<Result<MemoryImage>> keepMemory(std::shared_ptr<Live> live);
  // A sandbox resumed from `image`, whose limits and common properties must be the same. Its runner
  // has confirmed the resumption.
  Task<Result<std::shared_ptr<Live>>> goOn(model::Limits limits, Alike alike,
                                           std::shared_ptr<const MemoryImage> image);

  // A sandbox beside `session`'s for a single program, with the session's confinement rules
  // (encoded; "": none), user ids and workspace, and within its cgroup. Never with a guest.
  Task<Result<std::shared_ptr<Live>>> makeBeside(std::shared_ptr<Live> session,
                                                 model::Limits limits, std::string walls);

  // Opens the door of a claimed sandbox, in which no program has started (box/door.h). At most once
  // for a sandbox; after an error the sandbox is of no use. A guest's needs a claim with its link.
  Task<Result<DoorSockets>> openDoor(std::shared_ptr<Live> live, DoorOrder order);

  // Called after a program's start, when the node has time to make wanted sandboxes.
  void refill();

  // Removes all ready sandboxes, including sandboxes being made.
  void drop();

  [[nodiscard]] size_t ready() const;
  // True while something is made ahead.
  [[nodiscard]] bool refilling() const { return refilling_; }
  [[nodiscard]] model::PoolStats stats() const;

 private:
  // A set of interchangeable sandboxes.
  struct Kind {
    SandboxSpec spec;  // without the user ids, which always differ
    Alike alike;
    bool default_limits = false;  // whether spec has the default limits
    std::optional<Prestart> prestart;
    model::Limits limits;                     // of the last claim
    std::deque<std::shared_ptr<Live>> ready;  // the oldest first
    uint32_t wanted = 0;                      // ready ones to keep, by demand
    uint32_t making = 0;                      // number being made ahead of claims
    uint32_t waiting = 0;                     // claims waiting for sandboxes being made
    uint32_t serving = 0;                     // claims under way
    uint32_t claims = 0;                      // number in this period
    uint32_t used = 0;                        // number of claims, halved each period
    bool failed = false;                      // to be made ahead, since the last claim or period
    bool not_kept = false;                    // making a template failed
    size_t fewest = 0;                        // minimum of ready sandboxes in this period

    [[nodiscard]] bool idle() const { return ready.empty() && making == 0 && serving == 0; }
  };

  Kind* find(const SandboxSpec& spec, const Alike& alike);
  Kind& kindOf(const model::Limits& limits, const Alike& alike);
  Task<Result<std::shared_ptr<Live>>> serve(Kind& kind, model::Limits limits, model::Served& how);
  std::shared_ptr<Live> take(Kind& kind);
  std::shared_ptr<Live> takeFor(Kind& kind);
  [[nodiscard]] uint32_t target(const Kind& kind) const;
  [[nodiscard]] bool lacks(const Kind& kind) const;
  [[nodiscard]] bool lacksAny() const;
  [[nodiscard]] bool owes() const;
  Kind* lacking();
  Kind* leastUsed();
  void giveUpOldest(Kind& kind);
  model::PoolStats::Held held();
  bool heldBack();
  [[nodiscard]] bool hampered() const;
  void watch();
  void look();
  bool makeRoomFor(const Kind& kind);
  Task<void> makeWanted();
  [[nodiscard]] model::PoolKind describe(const Kind& kind) const;
  Task<bool> makeRoom();
  Task<void> discard(std::shared_ptr<Live> live);
  void startPeriod();
  void endPeriod();

  Task<Result<std::shared_ptr<Live>>> makeAhead(Kind& kind);
  Task<Result<std::shared_ptr<Live>>> makeNow(Kind& kind, model::Limits limits);
  // How to make a sandbox: by a zygote or the spawner, and how its guest begins.
  struct How {
    std::shared_ptr<SpawnQueue> zygote{};
    Beginning begins = Beginning::kBoots;
    std::shared_ptr<const Template> from{};      // or the template to save into
    std::shared_ptr<const MemoryImage> image{};  // or the image to resume
    Fd workspace{};                              // or the mount of the shared workspace
    Fd orders{};                                 // to its VMM, once made
    bool by_chance = false;                      // Guest::failedByChance, where none was made
  };
  Task<Result<std::shared_ptr<Live>>> make(model::Limits limits, Alike alike, How& how);
  Task<Result<std::shared_ptr<Live>>> boot(model::Limits limits, const Alike& alike, How& how);
  Task<Result<>> start(Live& live, const SandboxSpec& spec, const std::string& walls,
                       std::span<const int> groups, How& how);
  // In pool_template.cc. nullptr without a template.
  Task<Result<std::shared_ptr<Live>>> resume(const Kind& kind, model::Limits limits);
  Task<void> keepTemplate(Kind& kind);
  Task<Result<std::shared_ptr<Template>>> makeTemplate(const Kind& kind);
  [[nodiscard]] std::shared_ptr<Templates> templatesFor(const Kind& kind) const;
  [[nodiscard]] Templates::Shape shapeOf(const Kind& kind) const;
  void forgetTemplates();
  Task<Result<Fd>> openWorkspace(std::shared_ptr<Live> session);
  Task<Result<Fd>> spawn(const SandboxSpec& spec, std::span<const int> fds);
  std::shared_ptr<SpawnQueue> zygoteFor(const Kind& kind);
  [[nodiscard]] bool hasWholeRoot(const Kind& kind) const;
  [[nodiscard]] bool showsAhead(const Kind& kind) const;
  [[nodiscard]] Prestart aheadFor(const Kind& kind) const;

  [[nodiscard]] uint32_t mostReady() const;

  boost::asio::any_io_executor executor_;
  std::shared_ptr<ProcessHost> host_;
  std::shared_ptr<PresentQueue> spawner_;
  std::shared_ptr<const Guest> guest_;
  std::shared_ptr<Groups> groups_;
  std::shared_ptr<Zygotes> zygotes_;
  std::list<Kind> kinds_;    // kinds with claims in this period or the last
  model::PoolStats counts_;  // without computed values: kinds, zygotes, dying
  bool refilling_ = false;
  bool in_period_ = false;
  uint32_t discarding_ = 0;  // being torn down, unused
  async::Signal made_;       // or torn down
  const Pressure pressure_;
  base::Monotonic look_again_{};
  bool watching_ = false;
  bool kept_back_ = false;  // making wanted sandboxes was postponed
  boost::asio::steady_timer watch_;
  boost::asio::steady_timer lull_;
  boost::asio::steady_timer period_;
};

}  // namespace cloister::runtime
