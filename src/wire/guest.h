// SPDX-License-Identifier: Apache-2.0
// What a node and pid 1 of a virtual machine that it makes, or of a gVisor container with sandboxes
// within it, agree on beside frames: what is where, and how it is told the limits of a sandbox.
// Both come from one build: the node brings pid 1 itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cloister::wire::guest {

// In the initial RAM file system, or in the directory that is the first root in its place.
inline constexpr char kInit[] = "init";
inline constexpr char kGuest[] = "cloister-guest";  // there kInit's name
inline constexpr char kRunner[] = "cloister-runner";
inline constexpr char kFilter[] = "filter";    // as for wire::kFilterFlag
inline constexpr char kModules[] = "modules";  // a directory; loaded in the order of their names
// Where an agent's walls are to be put up (model/walls.h), those, encoded, and what does it.
inline constexpr char kWalls[] = "walls";
inline constexpr char kWallsProgram[] = "cloister-walls";

// pid 1 of a container is told so by its only argument, and finds these in its root.
inline constexpr char kContainer[] = "container";
inline constexpr char kRunnerInContainer[] = "/run/cloister-runner";
inline constexpr char kFilterInContainer[] = "/run/filter";

// In /dev: the sandbox's root, a squashfs, and how the only port's name begins, that the runner's
// frames go through (the rest is the kernel's count of devices).
inline constexpr char kDisk[] = "vda";
inline constexpr char kPort[] = "vport";

// A sandbox within the sandbox: the runner asks pid 1 for one on a socket (unix(7), SOCK_SEQPACKET)
// that it has from it, by one packet: its parameters, as below, NAME=VALUE each with a NUL behind
// it, and as SCM_RIGHTS the other end of a stream on which another runner is then to say kHello.
// The sandbox ends when that end is closed. At once there are at most kMostWithin.
inline constexpr size_t kMaxParameters = 1024;
inline constexpr unsigned kMostWithin = 24;

// Parameters of the kernel, which hands those that it does not know to pid 1 as its environment.
// Numbers in decimal.
inline constexpr char kMemory[] = "cloister_memory";  // bytes of all processes and files
// Processors that programs see; of a machine's own sandbox not told, which sees the machine's.
inline constexpr char kCpus[] = "cloister_cpus";
inline constexpr char kPids[] = "cloister_pids";        // processes and threads, with the runner
inline constexpr char kScratch[] = "cloister_scratch";  // bytes of all writable files
inline constexpr char kInodes[] = "cloister_inodes";    // and how many they may be
inline constexpr char kNoExec[] = "cloister_noexec";    // 1: those cannot be executed
// Where programs may change files, as a number: model::Walls::Writes.
inline constexpr char kWrites[] = "cloister_writes";
// Of a sandbox within: 1: /workspace is the first sandbox's.
inline constexpr char kShares[] = "cloister_shares";
inline constexpr char kLimits[] = "cloister_limits";  // setrlimit(2): RESOURCE:VALUE,...

// Where a machine is to be one that others begin from (any value): pid 1 passes the runner's first
// word on, then takes nothing from the node but one ToGuest::kWake, and answers it. On vsock it
// hangs up after that word, and connects until it is woken.
inline constexpr char kSleeps[] = "cloister_sleeps";

// Messages between node and pid 1 (frame.h), which the runner knows nothing of; channel 0.
enum class ToGuest : uint16_t {
  // kWakeEntropy raw bytes that nobody else has had, i64 seconds and u32 nanoseconds since the Unix
  // epoch. What is told so goes on as a machine of its own.
  kWake = 33,
};
enum class FromGuest : uint16_t {
  // none: the kernel's random numbers and its clock are set.
  kAwake = 97,
};
inline constexpr size_t kWakeEntropy = 64;
inline constexpr size_t kWakeBytes = kWakeEntropy + 8 + 4;

// Where the root lies in /root of the first one, instead of on the disk (any value).
inline constexpr char kShown[] = "cloister_shown";

// Where the node's port is one of vsock(7) on the host (CID 2) instead: its number.
inline constexpr char kVsock[] = "cloister_vsock";
inline constexpr unsigned kVsockPort = 1024;

}  // namespace cloister::wire::guest
