// SPDX-License-Identifier: Apache-2.0
// Guest: a kind of sandbox whose programs run on a kernel of their own, which is a program of the
// host and is held like one: in the sandbox's cgroup, in namespaces of its own, ended with them.
// The process runtime makes and ends such sandboxes like its own; what differs is said here.
//
// Immutable once made; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "linux/cgroup.h"
#include "model/limits.h"
#include "model/plan.h"
#include "runtime/process/confine.h"

namespace cloister::runtime {

class Guest {
 public:
  virtual ~Guest() = default;
  // As permits name the runtime: "gvisor".
  [[nodiscard]] virtual std::string name() const = 0;
  // What is weaker in it than its limits say, for every result.
  [[nodiscard]] virtual std::vector<std::string> weakened() const = 0;
  // For `cloister doctor`.
  [[nodiscard]] virtual model::Finding finding() const = 0;
  // Ready sandboxes to keep, at most.
  [[nodiscard]] virtual uint32_t ready() const = 0;

  // What the guest kernel needs comes on top of the program's limits.
  virtual void adjust(const model::Limits& limits, SandboxSpec& spec,
                      linux::CgroupLimits& cgroup) const = 0;
  // The descriptors that go with a request, after the runner's socket and before the cgroups.
  [[nodiscard]] virtual Result<std::vector<Fd>> files(const SandboxSpec& spec) const = 0;
  // What files() comes down to, for --dry-run.
  virtual void describe(const SandboxSpec& spec, base::json::object& plan) const = 0;
};

// Of a request for a guest: a plan, its program, and where it says why it cannot start.
inline constexpr size_t kGuestFds = 3;

}  // namespace cloister::runtime
