// SPDX-License-Identifier: Apache-2.0
// What a node and pid 1 of a virtual machine that it makes agree on beside frames: what the machine
// finds where, and how it is told the limits of its one sandbox. Both come from one build: the node
// puts pid 1 into the machine's initial RAM file system itself.
#pragma once

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

// In /dev: the sandbox's root, a squashfs, and how the only port's name begins, that the runner's
// frames go through (the rest is the kernel's count of devices).
inline constexpr char kDisk[] = "vda";
inline constexpr char kPort[] = "vport";

// Parameters of the kernel, which hands those that it does not know to pid 1 as its environment.
// Numbers in decimal.
inline constexpr char kMemory[] = "cloister_memory";    // bytes of all processes and files
inline constexpr char kPids[] = "cloister_pids";        // processes and threads, with the runner
inline constexpr char kScratch[] = "cloister_scratch";  // bytes of all writable files
inline constexpr char kInodes[] = "cloister_inodes";    // and how many they may be
inline constexpr char kNoExec[] = "cloister_noexec";    // 1: those cannot be executed
inline constexpr char kLimits[] = "cloister_limits";    // setrlimit(2): RESOURCE:VALUE,...

// Where the root lies in /root of the first one, instead of on the disk (any value).
inline constexpr char kShown[] = "cloister_shown";

// Where the node's port is one of vsock(7) on the host (CID 2) instead: its number.
inline constexpr char kVsock[] = "cloister_vsock";
inline constexpr unsigned kVsockPort = 1024;

}  // namespace cloister::wire::guest
