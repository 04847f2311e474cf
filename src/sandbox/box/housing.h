// SPDX-License-Identifier: Apache-2.0
// Housing: what a Run needs of the sandbox that it runs in. One of the node's own (live.h), or one
// within a session's (within.h). One thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include <boost/asio/any_io_executor.hpp>

#include "linux/cgroup.h"
#include "model/limits.h"
#include "sandbox/box/runner_channel.h"
#include "sandbox/host/lock_watch.h"

namespace cloister::runtime {

class Housing {
 public:
  // A program that was started in it before its code was there (model/prestart.h).
  enum class Ahead : uint8_t {
    kNone,
    kAtFifo,  // waits for the code, where it reads it
    kCopied,  // of a zygote, waits for a sign to read it
  };

  virtual ~Housing() = default;
  [[nodiscard]] virtual const boost::asio::any_io_executor& executor() const = 0;
  [[nodiscard]] virtual const model::Limits& limits() const = 0;
  [[nodiscard]] virtual RunnerChannel& channel() = 0;
  // How long its runner may take to answer (ProcessConfig::runner_patience).
  [[nodiscard]] virtual std::chrono::milliseconds patience() const = 0;
  // The same from the order to start a program to its start, and from a kill to the report of it.
  [[nodiscard]] std::chrono::milliseconds startGrace() const {
    constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(10);
    return std::min(patience(), kLongest);
  }
  [[nodiscard]] virtual Ahead ahead() const = 0;
  // Its cgroup on this kernel, or nullptr.
  [[nodiscard]] virtual const linux::Cgroup* group() const = 0;

  // What its programs use is told by a guest kernel or polled, and not by a cgroup.
  [[nodiscard]] virtual bool toldFromInside() const = 0;
  // What its program's limits killed is counted in a guest, where nobody can wait for it.
  [[nodiscard]] virtual bool countedInside() const = 0;
  // Whether usage() has how many processes there are: not of those that a guest's kernel has.
  [[nodiscard]] virtual bool countsProcesses() const = 0;
  // What starting it has used, and what it has used so far.
  [[nodiscard]] virtual const linux::CgroupUsage& before() const = 0;
  [[nodiscard]] virtual linux::CgroupUsage usage() const = 0;
  // Of storage: its programs' own, as far as this kernel tells.
  [[nodiscard]] virtual linux::IoBytes io() const { return {}; }
  // What its workspace is made to hold.
  [[nodiscard]] virtual uint64_t workspaceBytes() const = 0;
  [[nodiscard]] virtual linux::CgroupEvents events() const = 0;
  // For which it was ended.
  [[nodiscard]] virtual const std::optional<LocksOver>& locksOver() const {
    static const std::optional<LocksOver> none;
    return none;
  }

  // Ends everything in it; the channel then ends. Returns at once. Idempotent.
  virtual void kill() = 0;
  // Why its runner is heard no more: `what`, and what else is known.
  [[nodiscard]] virtual std::string lost(std::string what) const = 0;
};

}  // namespace cloister::runtime
