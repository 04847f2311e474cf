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
#include "model/describe.h"

namespace cloister::model {

struct Limits {
  std::chrono::milliseconds wall{30'000};       // from the program's start to its end
  std::chrono::milliseconds cpu_time{0};        // sum over all processes; 0 only before `settle`
  uint32_t cpu_millis = 800;                    // thousandths of a core, on average
  uint64_t memory_bytes = uint64_t{256} << 20;  // everything charged: heap, files in tmpfs, kernel
  uint64_t disk_bytes = uint64_t{1024} << 20;   // all of kWritablePlaces together
  uint64_t inodes = 65'536;                     // files and directories there
  uint64_t file_bytes = uint64_t{1024} << 20;   // of a file (RLIMIT_FSIZE)
  uint32_t open_files = 1024;                   // per process (RLIMIT_NOFILE)
  uint32_t pids = 64;                           // processes and threads, the runner not counted
  uint64_t output_bytes = uint64_t{1} << 20;    // kept of each of stdout and stderr

  friend bool operator==(const Limits&, const Limits&) = default;
};

// Their names are those of records and audit rows; requests have their own (limitKinds()).
constexpr auto membersOf(const Limits* /*type*/) {
  return std::tuple{
      Member{"wall_ms", &Limits::wall},
      Member{"cpu_ms", &Limits::cpu_time},
      Member{"cpu_millis", &Limits::cpu_millis},
      Member{"memory_bytes", &Limits::memory_bytes},
      Member{"disk_bytes", &Limits::disk_bytes},
      Member{"inodes", &Limits::inodes},
      Member{"file_bytes", &Limits::file_bytes},
      Member{"open_files", &Limits::open_files},
      Member{"pids", &Limits::pids},
      Member{"output_bytes", &Limits::output_bytes},
  };
}

// A scratch file system in the sandbox's memory, as most are, may not take all of it: the smaller
// of `disk_bytes` and three quarters of `memory_bytes`.
uint64_t scratchBytes(const Limits& limits);

// Whether the workspace is on disk instead: if `disk_bytes` exceeds both that share of the memory
// and `over_bytes` (workspace.disk.over_mb). So default requests stay in memory.
bool needsDisk(const Limits& limits, uint64_t over_bytes);

// Sets `cpu_time` if absent: the wall time plus a second, on each core of the quota, so that a busy
// program reaches the wall limit first unless requested otherwise.
void settle(Limits& limits);

// The limits of a request without limits. settle() derives the processor time from the wall time
// and the processor share of `limits`.
Limits usualLimits(const Limits& limits);

// The form in records and audit rows, each in the unit of its name; requests use other names.
base::json::object toJsonObject(const Limits& limits);

// Names of limits in `details.limit`.
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
// Limits of a session's program in a fresh sandbox (RunRequest::fresh), at most the session's. All
// other limits are the session's.
inline constexpr std::array<std::string_view, 4> kFreshLimits = {
    limit_name::kMemory, limit_name::kFileSize, limit_name::kOpenFiles, limit_name::kPids};

// A kind of limit, in the unit of policy and its messages.
struct LimitKind {
  std::string_view name;  // name in requests
  std::string_view unit;
  uint64_t (*get)(const Limits& limits);
  void (*set)(Limits& limits, uint64_t value);
};
inline constexpr size_t kLimitCount = 10;
const std::array<LimitKind, kLimitCount>& limitKinds();

// Some of the limits, by their place in limitKinds().
using LimitSet = std::bitset<kLimitCount>;
// The index of a limit in limitKinds(); kLimitCount for an unknown name.
size_t limitIndex(std::string_view name);

// A limit reached by a run, as seen by the kernel or the node.
struct LimitHit {
  std::string limit;   // a name of limit_name
  uint64_t value = 0;  // the limit, in `unit`
  uint64_t used = 0;   // usage or demand, in `unit`
  std::string unit;    // "bytes", "ms", "processes", "files", "locks"
  bool fatal = false;  // ended the run; otherwise the program got an error and continued

  // A word of the program or a signal names the limit, but the program was not seen there: `used`
  // is the maximum seen, 0 if not looked at. All other hits are counted facts.
  [[nodiscard]] bool isProbable() const {
    const bool guessed = limit == limit_name::kOpenFiles || limit == limit_name::kDisk ||
                         limit == limit_name::kFileSize;
    return guessed && used < value;
  }
};

}  // namespace cloister::model
