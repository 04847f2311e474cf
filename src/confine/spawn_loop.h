// SPDX-License-Identifier: Apache-2.0
// The loop of a process that makes others on the node's word: the spawner, and a zygote. One
// request at a time, answered in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "confine/confine.h"
#include "linux/credentials.h"

namespace cloister::runtime {

// Travels from node to spawner as bytes, between two halves of the same build. With it come
// descriptors: for a sandbox the runner's socket, its walls if it has any, its disk likewise, then
// its cgroups; for a guest (guest.h) its own behind the socket; for a zygote its control socket,
// then its plan (zygote_plan.h);
// for what keeps the memory of a sandbox with gVisor, those of gvisor/become_saver.h; for what
// hands out a sandbox's workspace, those of become_workspace.h.
struct SpawnRequest {
  enum class What : uint32_t { kSandbox, kZygote, kGvisor, kMicrovm, kGvisorSave, kWorkspace };

  What what = What::kSandbox;
  SandboxSpec spec;        // of a sandbox, or a guest
  linux::IdMap root{};     // of a zygote: its own user,
  linux::IdMap rest{};     // and those of its sandboxes, none where they share its own; gVisor's
                           // likewise, whose second user is its kernel
  uint32_t guest_fds = 0;  // descriptors of a guest's own, behind the runner's socket
};

// What is made ahead waits for this long without a request: a program that was just started, and
// ends soon, is not held up by it.
inline constexpr std::chrono::milliseconds kLull{10};

// An answer is the text of an error, or this with a pidfd.
inline constexpr std::string_view kDone = "done";
inline constexpr size_t kMaxAnswer = 1024;

// A new process, in the namespaces of its sandbox, which is to become what was requested.
struct Birth {
  SpawnRequest request;
  std::vector<Fd> fds;
  Fd mapped;  // one byte comes when the id maps are written
};

// Serves requests on `control` until the node has closed it, which ends this process. Returns in
// the processes it makes. The caller has one thread, and does not wait for children.
Birth serveSpawns(int control);

// The same, but what it makes shares the memory of this process until it executes a program, and
// runs `become`, which does not return, on `stack`. A process that it forks may go on there.
[[noreturn]] void serveSharing(int control, std::span<char> stack, void (*become)(Birth& birth));

// Until the maps are written, no user id can be taken.
Result<> waitForIdMaps(const Fd& mapped);

// The descriptors of a sandbox's birth, by their meaning.
ConfineFds confineFds(Birth& birth);

}  // namespace cloister::runtime
