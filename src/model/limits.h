// SPDX-License-Identifier: Apache-2.0
// Limits of one sandbox: each has a default, a unit in its name or type, and a meaning. Zero never
// means unlimited. Defaults are the fixed contract's.
#pragma once

#include <array>
#include <bitset>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace cloister::model {

struct Limits {
  std::chrono::milliseconds wall{30'000};       // from the program's start to its end
  std::chrono::milliseconds cpu_time{0};        // sum over all processes; 0 only before `settle`
  uint32_t cpu_millis = 800;                    // thousandths of a core, on average
  uint64_t memory_bytes = uint64_t{256} << 20;  // everything charged: heap, files in tmpfs, kernel
  uint64_t disk_bytes = uint64_t{1024} << 20;   // /workspace, /tmp and /dev/shm together
  uint64_t inodes = 65'536;                     // files and directories in them
  uint64_t file_bytes = uint64_t{1024} << 20;   // one file (RLIMIT_FSIZE)
  uint32_t open_files = 1024;                   // per process (RLIMIT_NOFILE)
  uint32_t pids = 64;                           // processes and threads, the runner not counted
  uint64_t output_bytes = uint64_t{1} << 20;    // kept of each of stdout and stderr

  friend bool operator==(const Limits&, const Limits&) = default;
};

// A scratch file system in the sandbox's memory, as most are, may not take all of it: the smaller
// of `disk_bytes` and three quarters of `memory_bytes`.
uint64_t scratchBytes(const Limits& limits);

// It lives on disk instead, where there is room for all of `disk_bytes`, if those are more than
// both that share of the memory and `over_bytes` (workspace.disk.over_mb): what is asked for
// without a thought stays in memory.
bool needsDisk(const Limits& limits, uint64_t over_bytes);

// Gives `cpu_time` a value if it has none: one second more than the wall time on every core the
// quota allows, so that a busy program meets the wall limit first unless it was asked otherwise.
void settle(Limits& limits);

// What a request gets that names no limits. Its processor time is what settle() derives from the
// wall time and the processor share of `limits`.
Limits usualLimits(const Limits& limits);

// As records and audit rows have them, each in the unit of its name; requests have their own names.
base::json::object toJsonObject(const Limits& limits);

// Names of limits as they appear in `details.limit`.
namespace limit_name {
inline constexpr std::string_view kWall = "timeout_seconds";
inline constexpr std::string_view kCpuTime = "cpu_seconds";
inline constexpr std::string_view kCpuMillis = "cpu_millis";
inline constexpr std::string_view kMemory = "memory_mb";
inline constexpr std::string_view kDisk = "disk_mb";
inline constexpr std::string_view kInodes = "inodes";
inline constexpr std::string_view kFileSize = "file_size_mb";
inline constexpr std::string_view kOpenFiles = "open_files";
inline constexpr std::string_view kPids = "pids";
inline constexpr std::string_view kFileLocks = "file_locks";  // the node's, of no request
inline constexpr std::string_view kOutput = "max_output_bytes";
}  // namespace limit_name
// Those that a program of a session has for itself in a fresh sandbox (RunRequest::fresh), at most
// the session's. The others are the session's.
inline constexpr std::array<std::string_view, 4> kFreshLimits = {
    limit_name::kMemory, limit_name::kFileSize, limit_name::kOpenFiles, limit_name::kPids};

// One of the limits, in the unit that policy and its messages use.
struct LimitKind {
  std::string_view name;  // as requests name it
  std::string_view unit;
  uint64_t (*get)(const Limits& limits);
  void (*set)(Limits& limits, uint64_t value);
};
inline constexpr size_t kLimitCount = 10;
const std::array<LimitKind, kLimitCount>& limitKinds();

// Some of the limits, by their place in limitKinds().
using LimitSet = std::bitset<kLimitCount>;
// The place of a limit in limitKinds(); kLimitCount for a name that no limit has.
size_t limitIndex(std::string_view name);

// One limit that a run ran into, as the kernel or the node saw it.
struct LimitHit {
  std::string limit;   // one of limit_name
  uint64_t value = 0;  // the limit, in `unit`
  uint64_t used = 0;   // what was used or asked for, in `unit`
  std::string unit;    // "bytes", "ms", "processes", "files", "locks"
  bool fatal = false;  // it ended the run; otherwise the program saw an error and went on

  // The program says that it had too many open files, and nobody saw it at its limit: `used` is the
  // most that was seen, 0 where nobody looked. Of every other limit something was counted.
  [[nodiscard]] bool isProbable() const { return limit == limit_name::kOpenFiles && used < value; }
};

}  // namespace cloister::model
