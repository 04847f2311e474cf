// SPDX-License-Identifier: Apache-2.0
// The loop of a process that makes others at the node's request: the spawner, and a zygote.
// Requests are answered in order, one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "confine/confine.h"
#include "confine/door_order.h"
#include "confine/layer_order.h"
#include "linux/credentials.h"

namespace cloister::runtime {

// Travels as bytes from node to spawner, two processes of the same build. These descriptors come
// along:
// - kSandbox: the runner's socket, then its confinement rules, disk and cgroups, each if any.
// - kGvisor, kMicrovm: the guest's own descriptors (guest.h) follow the runner's socket.
// - kZygote: its control socket, then its plan (zygote_plan.h).
// - kGvisorSave, which saves the memory of a sandbox with gVisor: gvisor/become_saver.h.
// - kWorkspace, which opens a sandbox's workspace: become_workspace.h.
// - kDoor, which opens a sandbox's door to the network: become_door.h.
// - kLayers, which attaches dependency layers to a sandbox: become_layers.h.
struct SpawnRequest {
  enum class What : uint32_t {
    kSandbox,
    kZygote,
    kGvisor,
    kMicrovm,
    kGvisorSave,
    kWorkspace,
    kDoor,
    kLayers
  };

  What what = What::kSandbox;
  SandboxSpec spec;        // of a sandbox, or a guest
  linux::IdMap root{};     // of a zygote: its own user,
  linux::IdMap rest{};     // and its sandboxes' users, none if shared with the zygote; also for
                           // gVisor, whose second user is its kernel
  uint32_t guest_fds = 0;  // descriptors of a guest's own, behind the runner's socket
  DoorOrder door{};        // of kDoor
  LayerOrder layers{};     // of kLayers
};

// The host ids that new sandboxes may have, in the user namespace of the process that makes them.
struct IdRange {
  uint32_t first = 0;
  uint32_t count = 1;
};

// Whether the ids of `request` are within `ids`, and its counts and numbers within their bounds. An
// attacker in the node thus gets no process of a user outside `ids`.
bool isSound(const SpawnRequest& request, IdRange ids);

// Delay before anything is made ahead of requests, so that a program just started and soon finished
// is not slowed down.
inline constexpr std::chrono::milliseconds kLull{10};

// An answer is the text of an error, or kDone with a pidfd.
inline constexpr std::string_view kDone = "done";
inline constexpr size_t kMaxAnswer = 1024;

// A new process in its sandbox's namespaces, which will become the requested program.
struct Birth {
  SpawnRequest request;
  std::vector<Fd> fds;
  Fd mapped;  // receives one byte after the id maps are written
};

// Serves requests on `control` until the node closes the socket; then the process exits. Returns in
// each new process. The caller has a single thread, and does not wait for children. A request that
// is not sound for `ids` gets an error. `outer_proc`: for a caller without a /proc of its own, an
// open /proc of an outer pid namespace; else -1. A new process must close its copy.
Birth serveSpawns(int control, IdRange ids, int outer_proc = -1);

// Like serveSpawns(), but a new process shares the memory of this process until execve(2). The new
// process runs `become`, which does not return, on `stack`. A process forked there may continue.
// All ids of the user namespace are allowed.
[[noreturn]] void serveSharing(int control, std::span<char> stack, void (*become)(Birth& birth));

// Until the maps are written, no user id can be taken.
Result<> waitForIdMaps(const Fd& mapped);

// The descriptors of a sandbox's birth, by their meaning.
ConfineFds confineFds(Birth& birth);

}  // namespace cloister::runtime
