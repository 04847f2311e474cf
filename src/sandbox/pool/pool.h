// SPDX-License-Identifier: Apache-2.0
// Pool: makes sandboxes, for each permit or ahead of it. One made ahead is as fresh as any: nothing
// has run in it, it is claimed once, and never comes back.
//
// Sandboxes are alike, and may stand in for each other, when the same is built into them (file
// system, resource limits: SandboxSpec) and the same was started in them, if anything (Prestart);
// what the cgroup limits is written at the claim. How
// many of a kind are kept ready follows demand: a claim that finds none, or one whose interpreter
// is still starting, wants one more, and what stayed unclaimed through `idle` is given up. The
// first claim of a kind wants nothing, so a single run pays for no second sandbox. Beside demand, a
// floor may be kept for each kind that was asked for.
//
// While the machine is short of memory or processors (pressure.h) nothing is made ahead, and while
// it is memory the ready ones go, those of the least used kind first. Claims take no notice of it.
// One thread.
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
  // Bounds are the host's: config().ready, ready_floor, ready_idle, pressure; how many are ready of
  // those with a `guest`, nullptr for those without, is the guest's. All pools of a root have one
  // `spawner`.
  Pool(boost::asio::any_io_executor executor, std::shared_ptr<ProcessHost> host,
       std::shared_ptr<PresentQueue> spawner, std::shared_ptr<const Guest> guest = nullptr);

  // What sandboxes that stand in for each other have in common beside their SandboxSpec.
  struct Alike {
    std::string key = {};    // of the programs that may share an interpreter started ahead, or ""
    std::string walls = {};  // model::Walls, encoded; "" for none
    bool nests = false;      // SandboxSpec::nests

    friend bool operator==(const Alike&, const Alike&) = default;
  };

  // A sandbox whose runner waits for work: a ready one, the one that is nearly ready, or one made
  // now. kUnavailable when all are in use.
  Task<Result<std::shared_ptr<Live>>> claim(model::Limits limits, Alike alike);
  // What claims like this run: from now on it is started in what is made ahead for them.
  void learn(const model::Limits& limits, const Alike& alike, Prestart prestart);

  // The memory of one that says nothing meanwhile (Switchboard::rest).
  Task<Result<MemoryImage>> keepMemory(std::shared_ptr<Live> live);
  // One that goes on from `image`, with whose sandbox it is to have the same limits and the same in
  // common; its runner has said that it does.
  Task<Result<std::shared_ptr<Live>>> goOn(model::Limits limits, Alike alike,
                                           std::shared_ptr<const MemoryImage> image);

  // One beside `session`'s, for one program, with the session's walls (encoded; "": none): with its
  // user ids and workspace, and within its control group. Never with a guest.
  Task<Result<std::shared_ptr<Live>>> makeBeside(std::shared_ptr<Live> session,
                                                 model::Limits limits, std::string walls);

  // A good moment to make what is wanted: a program was started, and the node has time.
  void refill();

  // Gives up all that is ready, and whatever is being made.
  void drop();

  [[nodiscard]] size_t ready() const;
  // True while something is made ahead.
  [[nodiscard]] bool refilling() const { return refilling_; }
  [[nodiscard]] model::PoolStats stats() const;

 private:
  // Sandboxes that may stand in for each other.
  struct Kind {
    SandboxSpec spec;  // without the user ids, in which all differ
    Alike alike;
    bool default_limits = false;  // spec is that of the default limits
    std::optional<Prestart> prestart;
    model::Limits limits;                     // of the last claim
    std::deque<std::shared_ptr<Live>> ready;  // the oldest first
    uint32_t wanted = 0;                      // ready ones to keep, by demand
    uint32_t making = 0;                      // ahead of claims
    uint32_t waiting = 0;                     // claims that wait for those
    uint32_t serving = 0;                     // claims under way
    uint32_t claims = 0;                      // in this period
    uint32_t used = 0;                        // claims, those of each period before counting half
    bool failed = false;                      // to be made ahead, since the last claim or period
    bool not_kept = false;                    // a template of it could not be made
    size_t fewest = 0;                        // that were ready at once in this period

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
  // How one comes to be: by a zygote, or else by the spawner, and how its guest begins.
  struct How {
    std::shared_ptr<SpawnQueue> zygote{};
    Beginning begins = Beginning::kBoots;
    std::shared_ptr<const Template> from{};      // or what it is to be kept in
    std::shared_ptr<const MemoryImage> image{};  // or what it goes on from
    Fd workspace{};                              // or the mount of the one that it shares
    Fd orders{};                                 // to its VMM, once made
    bool by_chance = false;                      // Guest::failedByChance, where none was made
  };
  Task<Result<std::shared_ptr<Live>>> make(model::Limits limits, Alike alike, How& how);
  Task<Result<std::shared_ptr<Live>>> boot(model::Limits limits, const Alike& alike, How& how);
  Task<Result<>> start(Live& live, const SandboxSpec& spec, const std::string& walls,
                       std::span<const int> groups, How& how);
  // Of pool_template.cc; nullptr where there is no template.
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
  std::list<Kind> kinds_;    // with claims in this period or the last
  model::PoolStats counts_;  // without what is looked up: kinds, zygotes, dying
  bool refilling_ = false;
  bool in_period_ = false;
  uint32_t discarding_ = 0;  // being torn down, unused
  async::Signal made_;       // or torn down
  const Pressure pressure_;
  base::Monotonic look_again_{};
  bool watching_ = false;
  bool kept_back_ = false;  // from making what was wanted
  boost::asio::steady_timer watch_;
  boost::asio::steady_timer lull_;
  boost::asio::steady_timer period_;
};

}  // namespace cloister::runtime
