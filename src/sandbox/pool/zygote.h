// SPDX-License-Identifier: Apache-2.0
// Zygotes: interpreters that have started, imported what programs use most, and never run a
// program. A copy of one is a program's interpreter in a new sandbox, made in a millisecond, and
// shares the memory that it does not change.
//
//   spawner ─clone3─▶ the language's own interpreter, root of a user namespace of its own
//                       └─clone3─▶ confineSelf() ─fork─▶ the program, once the runner says so
//                                        └─execveat─▶ cloister-runner, pid 1
//
// A zygote ends with the spawner, and its sandboxes with it. Used from one thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/clock.h"
#include "confine/zygote_plan.h"
#include "runtime/runtime.h"
#include "sandbox/box/prestart.h"
#include "sandbox/host/host.h"
#include "sandbox/host/spawn_queue.h"

namespace cloister::runtime {

// What makes an interpreter a zygote, or has it wait alone: to be found where it looks for modules.
Result<std::vector<ZygotePlan::File>> zygoteFiles(const ZygoteConfig& config);

class Zygotes : public std::enable_shared_from_this<Zygotes> {
 public:
  // Bounds are the host's: config().zygotes, config().zygote_copies.
  Zygotes(boost::asio::any_io_executor executor, std::shared_ptr<ProcessHost> host);

  // What makes one sandbox with a copy for programs of `key`, all of which run `prestart`; nullptr
  // when there is none, or none yet: `spawner` is asked for one then, which is never waited for.
  std::shared_ptr<SpawnQueue> take(const std::string& key, const Prestart& prestart,
                                   const std::shared_ptr<SpawnQueue>& spawner);
  // Whether `zygote` of `key` has made a copy. What asks for too little may be why it has not: it
  // is given up when it has ended, or could make none many times in a row.
  void told(const std::string& key, const SpawnQueue& zygote, bool copied);
  // True if take() would find one.
  [[nodiscard]] bool has(const std::string& key);
  [[nodiscard]] bool empty() const { return zygotes_.empty(); }
  // Those that can be copied now.
  [[nodiscard]] uint32_t standing() const;
  // Ends those that were not asked for since the last call.
  void dropIdle();

 private:
  static constexpr base::Millis kFirstPause{500};

  struct Zygote {
    std::string key;
    std::shared_ptr<SpawnQueue> queue;  // nullptr until it serves
    std::shared_ptr<Spawner> spawner;   // that made it
    uint32_t copies = 0;
    uint32_t failed = 0;  // to make one, since it last did
    bool starting = false;
    bool asked = true;  // since the last dropIdle()
    base::Monotonic not_before{};
    base::Millis pause = kFirstPause;  // after the next that fails; twice as long each time
  };

  Zygote* known(const std::string& key);
  static void giveUp(Zygote& zygote);
  static void postpone(Zygote& zygote);
  [[nodiscard]] bool serves(const Zygote& zygote) const;
  Task<void> start(std::string key, Prestart prestart, std::shared_ptr<SpawnQueue> spawner);
  Task<Result<std::shared_ptr<SpawnQueue>>> make(const ZygoteConfig& config,
                                                 const Prestart& prestart, SpawnQueue& spawner);

  boost::asio::any_io_executor executor_;
  std::shared_ptr<ProcessHost> host_;
  std::list<Zygote> zygotes_;
};

}  // namespace cloister::runtime
