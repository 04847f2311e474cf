// SPDX-License-Identifier: Apache-2.0
// Zygotes: interpreters that have started, imported the most used modules, and never run a program.
// A copy of a zygote is a program's interpreter in a new sandbox, made in a millisecond. The copy
// shares all memory that the copy does not change.
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

class Zygotes : public std::enable_shared_from_this<Zygotes> {
 public:
  // Bounds are the host's: config().zygotes, config().zygote_copies.
  Zygotes(boost::asio::any_io_executor executor, std::shared_ptr<ProcessHost> host);

  // The queue of a zygote whose copies run programs of `key`, all of which run `prestart`. nullptr
  // if no zygote is ready: then `spawner` gets a request for one, without waiting.
  std::shared_ptr<SpawnQueue> take(const std::string& key, const Prestart& prestart,
                                   const std::shared_ptr<SpawnQueue>& spawner);
  // Reports whether `zygote` of `key` made a copy. A zygote is dropped when it has ended, or after
  // many failures in a row, since a failure may be due to limits that are too small.
  void told(const std::string& key, const SpawnQueue& zygote, bool copied);
  // Whether take() would return a queue.
  [[nodiscard]] bool has(const std::string& key);
  [[nodiscard]] bool empty() const { return zygotes_.empty(); }
  // Number of zygotes ready to be copied.
  [[nodiscard]] uint32_t standing() const;
  // Ends zygotes not asked for since the last call.
  void dropIdle();

 private:
  static constexpr base::Millis kFirstPause{500};

  struct Zygote {
    std::string key;
    std::shared_ptr<SpawnQueue> queue;  // nullptr until ready
    std::shared_ptr<Spawner> spawner;   // the maker of the zygote
    uint32_t copies = 0;
    uint32_t failed = 0;  // failed attempts since the last success
    bool starting = false;
    bool asked = true;  // since the last dropIdle()
    base::Monotonic not_before{};
    base::Millis pause = kFirstPause;  // after the next failure; doubles each time
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
