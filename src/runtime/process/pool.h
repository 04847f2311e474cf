// SPDX-License-Identifier: Apache-2.0
// Pool: makes sandboxes, for each permit or ahead of it. One made ahead is as fresh as any: nothing
// has run in it, it is claimed once, and never comes back.
//
// Sandboxes are alike, and may stand in for each other, when the same is built into them (file
// system, resource limits: SandboxSpec) and the same was started in them, if anything (Prestart);
// what the cgroup limits is written at the claim. How
// many of a kind are kept ready follows demand: a claim that finds none, or one whose interpreter
// is still starting, wants one more, and what stayed unclaimed through `idle` is given up. The
// first claim of a kind wants nothing, so a single run pays for no second sandbox. One thread.
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

#include "base/result.h"
#include "model/limits.h"
#include "runtime/process/host.h"
#include "runtime/process/live.h"
#include "runtime/process/prestart.h"
#include "runtime/process/spawn_queue.h"
#include "runtime/process/zygote.h"
#include "runtime/runtime.h"
#include "runtime/signal.h"

namespace cloister::runtime {

class Pool : public std::enable_shared_from_this<Pool> {
 public:
  // Bounds are the host's: config().ready, config().ready_idle.
  Pool(boost::asio::any_io_executor executor, std::shared_ptr<ProcessHost> host);

  // A sandbox whose runner waits for work: a ready one, the one that is nearly ready, or one made
  // now. kUnavailable when all are in use.
  // `prestart` is the permit's: programs that may share an interpreter started ahead.
  Task<Result<std::shared_ptr<Live>>> claim(model::Limits limits, std::string prestart);
  // What claims with `key` run: from now on it is started in what is made ahead for them.
  void learn(const model::Limits& limits, const std::string& key, Prestart prestart);

  // A good moment to make what is wanted: a program was started, and the node has time.
  void refill();

  // Gives up all that is ready, and whatever is being made.
  void drop();

  [[nodiscard]] size_t ready() const;
  // True while something is made ahead.
  [[nodiscard]] bool refilling() const { return refilling_; }

 private:
  // Sandboxes that may stand in for each other.
  struct Kind {
    SandboxSpec spec;  // without the user ids, in which all differ
    std::string key;   // of what is started ahead, "" if nothing is
    std::optional<Prestart> prestart;
    model::Limits limits;                     // of the last claim
    std::deque<std::shared_ptr<Live>> ready;  // the oldest first
    uint32_t wanted = 0;                      // ready ones to keep
    uint32_t making = 0;                      // ahead of claims
    uint32_t waiting = 0;                     // claims that wait for those
    uint32_t claims = 0;                      // in this period
    size_t fewest = 0;                        // that were ready at once in this period

    [[nodiscard]] bool idle() const { return ready.empty() && making == 0 && waiting == 0; }
  };

  Kind* find(const SandboxSpec& spec, const std::string& key);
  Kind& kindOf(const model::Limits& limits, const std::string& key);
  std::shared_ptr<Live> take(Kind& kind);
  std::shared_ptr<Live> takeFor(Kind& kind);
  Kind* lacking();
  bool makeRoomFor(const Kind& kind);
  Task<void> makeWanted();
  Task<bool> giveUpOne();
  void startPeriod();
  void endPeriod();

  Task<Result<std::shared_ptr<Live>>> makeAhead(Kind& kind);
  Task<Result<std::shared_ptr<Live>>> makeNow(Kind& kind, model::Limits limits);
  // By a zygote, or else by the spawner.
  Task<Result<std::shared_ptr<Live>>> make(model::Limits limits,
                                           std::shared_ptr<SpawnQueue> zygote = nullptr);
  Task<Result<>> start(Live& live, const SandboxSpec& spec, std::span<const int> groups,
                       const std::shared_ptr<SpawnQueue>& zygote);
  Task<Result<Fd>> spawn(const SandboxSpec& spec, std::span<const int> fds);
  std::shared_ptr<SpawnQueue> zygoteFor(const Kind& kind);
  const std::shared_ptr<SpawnQueue>& spawner();

  boost::asio::any_io_executor executor_;
  std::shared_ptr<ProcessHost> host_;
  std::shared_ptr<SpawnQueue> queue_;
  std::shared_ptr<Zygotes> zygotes_;
  std::list<Kind> kinds_;  // with claims in this period or the last
  bool refilling_ = false;
  bool in_period_ = false;
  Signal made_;
  boost::asio::steady_timer lull_;
  boost::asio::steady_timer period_;
};

}  // namespace cloister::runtime
