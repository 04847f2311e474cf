// SPDX-License-Identifier: Apache-2.0
// The steps by which a new process confines itself before becoming the runner: the whole isolation,
// in one function that reads as the list of steps. Runs in a child of the spawner or of a zygote,
// in fresh namespaces, with all capabilities in its own user namespace and none outside.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "confine/mount_plan.h"
#include "linux/credentials.h"
#include "linux/landlock.h"
#include "linux/process.h"
#include "linux/seccomp.h"
#include "model/walls.h"
#include "wire/runner.h"

namespace cloister::runtime {

// The user inside.
inline constexpr uint32_t kSandboxUid = 1000;

// The same for all sandboxes of a spawner.
struct Confinement {
  std::vector<MountStep> root;  // steps by which each sandbox builds its own root (ownRootSteps)
  std::vector<linux::LandlockRule> landlock;
  int landlock_abi = 0;
  std::vector<sock_filter> filter;
  Fd runner;  // sealed program
};

// How a guest's machine begins. kBoots: boots. kKept: boots, and its memory and state are kept
// afterwards. kResumes: resumes from kept memory and state (template.h). kImage: resumes from the
// memory image of a session (memory_image.h).
enum class Beginning : uint8_t { kBoots, kKept, kResumes, kImage };
// Number of descriptors that the VMM opens by number for a beginning: memory, orders and state, or
// the image's files.
constexpr uint32_t filesOf(Beginning begins) {
  constexpr uint32_t kFiles[] = {0, 3, 3, 3};
  return kFiles[static_cast<size_t>(begins)];
}

// The differences between sandboxes. Travels as bytes from node to spawner, two processes of the
// same build.
struct SandboxSpec {
  static constexpr size_t kMaxLimits = 16;

  linux::IdMap ids;
  uint64_t scratch_bytes = 0;
  uint64_t scratch_inodes = 0;
  uint64_t shown_memory = 0;  // shareSteps(), as the next; 0 where a guest has a machine of its own
  uint32_t shown_cpus = 0;
  uint32_t first_cpu = 0;  // first processor to use: sandboxes are spread over the processors
  std::array<linux::ResourceLimit, kMaxLimits> limits{};
  uint32_t limit_count = 0;
  bool walled = false;       // has one descriptor after the runner's: encoded model::Walls
  bool on_disk = false;      // has one descriptor after the rules: the mount of its disk (disks.h)
  bool shares = false;       // likewise: the mount of another sandbox's /workspace, to be its own
  uint32_t join_count = 0;   // number of descriptors after the mounts: cgroups to join (v1)
  bool into_cgroup = false;  // has one descriptor after the mounts: the cgroup to start in (v2)
  bool deny_setgroups = false;
  bool runs_own = true;  // as in model::Walls, as the next
  model::Walls::Writes writes = model::Walls::Writes::kAll;
  int32_t nice = 0;
  bool nests = false;  // sandboxes will be made inside (Guest::Nesting::kPrepared)
  // For a guest, which enforces these limits itself.
  uint64_t guest_memory_bytes = 0;
  uint32_t guest_pids = 0;
  uint32_t guest_cpus = 0;
  bool guest_devices = false;     // a /dev mount and a system call filter come with the request
  bool guest_program = false;     // the VMM's program comes as a descriptor, not by name
  bool guest_sockets = false;     // the VMM may make sockets in /tmp
  bool guest_opens_disk = false;  // the VMM opens by name its disk, which comes as a descriptor
  bool guest_shows = false;       // the VMM shows its machine the sandbox's root
  bool guest_opens_link = false;  // the VMM attaches by name to its machine's network link
  // The machine's address on its network link (door_link.h), in host byte order; 0: no link.
  uint32_t guest_link = 0;
  Beginning guest_begins = Beginning::kBoots;

  friend bool operator==(const SandboxSpec&, const SandboxSpec&) = default;
};

// CLONE_NEW* of a sandbox; the cgroup namespace is entered by confine(), from within its cgroup.
uint64_t sandboxNamespaces();
// Their names as in /proc/PID/ns.
std::vector<std::string> namespaceNames();

// The sandbox's writable file systems. `disk`, `workspace`: mounts given where spec.on_disk and
// spec.shares are set, else -1.
std::vector<MountStep> scratchStepsOf(const SandboxSpec& spec, int disk, int workspace);

// The Landlock rules of a sandbox.
std::vector<linux::LandlockRule> landlockRules();

struct ConfineFds {
  Fd runner_socket;
  Fd walls;  // or none
  Fd disk;   // or none, as the next
  Fd workspace;
  std::vector<Fd> cgroups;  // to join
  Fd mapped;                // receives one byte after the id maps are written
  // For a program other than the runner:
  std::vector<Fd> kept;  // stay open in the program, numbered from kKeptFd on
  Fd output;             // its stdout and stderr, or none
};
inline constexpr int kKeptFd = wire::kRunnerFd + 2;

// Applies the confinement rules received as a descriptor (apply_walls.h).
using WallsStep = Result<> (*)(int walls);
// For callers whose sandboxes have no confinement rules.
inline Result<> refuseWalls(int /*walls*/) {
  return fail(Code::kInternal, "putting up walls: not here");
}

// The whole of the isolation, up to and including the system call filter. Leaves the runner's
// socket as wire::kRunnerFd, the runner's program one above, and nothing else open but 0, 1 and 2.
Result<> confineSelf(const Confinement& confinement, const SandboxSpec& spec, const ConfineFds& fds,
                     WallsStep put_up = refuseWalls);
// The step after confinement: becomes the runner. `arguments`: runner/runner.h.
[[noreturn]] void becomeRunner(std::vector<std::string> arguments);
// The arguments for a sandbox in which nothing runs yet.
std::vector<std::string> runnerArguments(const SandboxSpec& spec);
// Instead: tells the node on the runner's socket, as kStartFailed before any kHello, and exits.
[[noreturn]] void refuseToStart(const Error& error);

}  // namespace cloister::runtime
