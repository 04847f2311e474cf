// SPDX-License-Identifier: Apache-2.0
// The agreement, beside frames, between a node and pid 1 of a virtual machine that the node makes,
// or of a gVisor container with sandboxes within: the places of files, and the encoding of a
// sandbox's limits. Both come from one build: the node brings pid 1 itself.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cloister::wire::guest {

// Names in the initial RAM file system, or in the directory that serves as the first root instead.
inline constexpr char kInit[] = "init";
inline constexpr char kGuest[] = "cloister-guest";  // there kInit's name
inline constexpr char kRunner[] = "cloister-runner";
inline constexpr char kFilter[] = "filter";    // as for wire::kFilterFlag
inline constexpr char kModules[] = "modules";  // a directory; loaded in the order of their names
// Likewise, loaded behind these for a machine with a network.
inline constexpr char kNetworkModules[] = "modules-network";
// With an agent's confinement rules (model/walls.h): the encoded rules, and the program that
// applies the rules.
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

// To make a sandbox within the sandbox, the runner asks pid 1 on a socket (unix(7), SOCK_SEQPACKET)
// inherited from pid 1. The request is a packet of parameters as below, each NAME=VALUE followed by
// a NUL, and as SCM_RIGHTS the other end of a stream, on which the inner runner sends kHello.
// Closing the stream ends the inner sandbox. At most kMostWithin exist at the same time.
inline constexpr size_t kMaxParameters = 1024;
inline constexpr unsigned kMostWithin = 24;

// Kernel parameters. The kernel passes unknown parameters to pid 1 as its environment. Numbers in
// decimal.
inline constexpr char kMemory[] = "cloister_memory";  // bytes of all processes and files
// Number of processors shown to programs. Absent for a machine's own sandbox, which shows the
// machine's.
inline constexpr char kCpus[] = "cloister_cpus";
inline constexpr char kPids[] = "cloister_pids";        // processes and threads, with the runner
inline constexpr char kScratch[] = "cloister_scratch";  // bytes of all writable files
inline constexpr char kInodes[] = "cloister_inodes";    // maximum number of writable files
inline constexpr char kNoExec[] = "cloister_noexec";    // 1: writable files cannot be executed
// The paths that programs may change: the number of a model::Walls::Writes.
inline constexpr char kWrites[] = "cloister_writes";
// In a sandbox within: 1: /workspace is the first sandbox's.
inline constexpr char kShares[] = "cloister_shares";
inline constexpr char kLimits[] = "cloister_limits";  // setrlimit(2): RESOURCE:VALUE,...

// Any value: the machine will be saved as a template. Pid 1 forwards the runner's first frame, then
// accepts only a ToGuest::kWake from the node, and answers. On vsock, pid 1 closes the connection
// after that frame, and retries to connect until woken.
inline constexpr char kSleeps[] = "cloister_sleeps";

// Messages between node and pid 1 (frame.h) on channel 0, unknown to the runner.
enum class ToGuest : uint16_t {
  // kWakeEntropy unique random bytes, i64 seconds and u32 nanoseconds since the Unix epoch. The
  // resumed guest thereby becomes a separate machine.
  kWake = 33,
};
enum class FromGuest : uint16_t {
  // none: the kernel's random numbers and its clock are set.
  kAwake = 97,
};
inline constexpr size_t kWakeEntropy = 64;
inline constexpr size_t kWakeBytes = kWakeEntropy + 8 + 4;

// The machine's address on its network link, and the address of its router and name server: numbers
// of 32 bits. The first sandbox has the network.
inline constexpr char kNetwork[] = "cloister_network";
inline constexpr char kGateway[] = "cloister_gateway";

// Any value: the root is in /root of the first root, instead of on the disk.
inline constexpr char kShown[] = "cloister_shown";

// The number of the node's port on the host (CID 2) by vsock(7), instead of a virtio port.
inline constexpr char kVsock[] = "cloister_vsock";
inline constexpr unsigned kVsockPort = 1024;

}  // namespace cloister::wire::guest
