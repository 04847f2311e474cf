// SPDX-License-Identifier: Apache-2.0
// Housing: the interface through which a Run uses its sandbox: one of the node's own (live.h), or
// one within a session's (within.h). One thread.
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

// A workspace as its programs found it. Programs of a session share one.
struct WorkspaceState {
  bool full = false;        // at the last end of a program
  bool files_full = false;  // the same for the number of files
  uint32_t programs = 0;    // running now; interpreters and file services do not count
};

class Housing {
 public:
  // How a program started before its code was known gets the code (model/prestart.h).
  enum class Ahead : uint8_t {
    kNone,
    kAtFifo,  // reads the code from a FIFO, and blocks there
    kCopied,  // a copy of a zygote, which waits for a signal to read the code
  };

  virtual ~Housing() = default;
  [[nodiscard]] virtual const boost::asio::any_io_executor& executor() const = 0;
  [[nodiscard]] virtual const model::Limits& limits() const = 0;
  [[nodiscard]] virtual RunnerChannel& channel() = 0;
  // How long its runner may take to answer (ProcessConfig::runner_patience).
  [[nodiscard]] virtual std::chrono::milliseconds patience() const = 0;
  // The limit from the order to start a program to its start, and from a kill to the report of the
  // end.
  [[nodiscard]] std::chrono::milliseconds startGrace() const {
    constexpr std::chrono::milliseconds kLongest = std::chrono::seconds(10);
    return std::min(patience(), kLongest);
  }
  [[nodiscard]] virtual Ahead ahead() const = 0;
  // The sandbox's cgroup on this kernel, or nullptr.
  [[nodiscard]] virtual const linux::Cgroup* group() const = 0;

  // Whether usage comes from a guest kernel or from polling, instead of a cgroup.
  [[nodiscard]] virtual bool toldFromInside() const = 0;
  // Whether a guest counts kills by limits, without any notification to wait for.
  [[nodiscard]] virtual bool countedInside() const = 0;
  // Whether usage() includes the number of processes. Processes of a guest's kernel are not
  // counted.
  [[nodiscard]] virtual bool countsProcesses() const = 0;
  // before(): usage of starting the sandbox. usage(): usage so far, including the start.
  [[nodiscard]] virtual const linux::CgroupUsage& before() const = 0;
  [[nodiscard]] virtual linux::CgroupUsage usage() const = 0;
  // Storage traffic of the sandbox's programs, as far as this kernel reports.
  [[nodiscard]] virtual linux::IoBytes io() const { return {}; }
  // The capacity for which the workspace was made.
  [[nodiscard]] virtual uint64_t workspaceBytes() const = 0;
  [[nodiscard]] virtual WorkspaceState& workspaceState() = 0;
  [[nodiscard]] virtual linux::CgroupEvents events() const = 0;
  // The excess of file locks for which the sandbox was ended, if any.
  [[nodiscard]] virtual const std::optional<LocksOver>& locksOver() const {
    static const std::optional<LocksOver> none;
    return none;
  }

  // Ends all processes in the sandbox; then the channel ends. Returns at once. Idempotent.
  virtual void kill() = 0;
  // Why the runner's channel ended: `what`, and further known facts.
  [[nodiscard]] virtual std::string lost(std::string what) const = 0;
};

}  // namespace cloister::runtime
