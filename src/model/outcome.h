// SPDX-License-Identifier: Apache-2.0
// Outcome: a sandbox's report of one exec. The program's end, the reached limits and the usage;
// never an Error, which reports a fault of the service.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model/describe.h"
#include "model/limits.h"

namespace cloister::model {

enum class Stream : uint8_t { kStdout = 1, kStderr = 2 };

struct Usage {
  int64_t wall_ms = 0;
  int64_t cpu_ms = 0;
  uint64_t max_rss_bytes = 0;  // the sandbox's peak charge, if the kernel reports a peak
  uint64_t memory_bytes = 0;   // charged now, for running programs; 0 in records of ended ones
  uint32_t cpu_millis = 0;     // current processor use, in thousandths; 0 in records of ended ones
  uint64_t io_read_bytes = 0;  // of storage devices; memory and page cache do not count
  uint64_t io_write_bytes = 0;
  // Maximum; nullopt if a guest's kernel has the processes, or the host's reports no number.
  std::optional<uint32_t> processes = 0;
  // Maximum seen in a process; nullopt if not looked at. A program that ends within milliseconds
  // may be missed.
  std::optional<uint32_t> open_files = {};
  // The workspace's capacity, which in memory can be below Limits::disk_bytes; 0 until known.
  uint64_t disk_limit_bytes = 0;

  friend bool operator==(const Usage&, const Usage&) = default;

  // Adds the usage of a later sandbox.
  void add(const Usage& later);
};

// How Usage::add() joins a member of two sandboxes.
enum class Joined : uint8_t {
  kSum,          // a sum made too large by a hostile node stays at its maximum
  kPeak,         // the maximum of the known values
  kPeakOfKnown,  // the maximum; unknown unless both values are known
  kLater,        // the value of the later sandbox
};

template <class V>
struct UsageMember : Member<Usage, V> {
  Joined joined = Joined::kSum;
};

constexpr auto membersOf(const Usage* /*type*/) {
  using enum Kept;
  using enum Joined;
  const auto member = []<class V>(std::string_view name, V Usage::* pointer, Kept kept,
                                  Joined joined) {
    return UsageMember<V>{{name, pointer, kept}, joined};
  };
  return std::tuple{
      member("wall_ms", &Usage::wall_ms, kAlways, kSum),
      member("cpu_ms", &Usage::cpu_ms, kAlways, kSum),
      member("max_rss_bytes", &Usage::max_rss_bytes, kAlways, kPeak),
      member("memory_bytes", &Usage::memory_bytes, kNow, kLater),
      member("cpu_millis", &Usage::cpu_millis, kNow, kLater),
      member("io_read_bytes", &Usage::io_read_bytes, kAlways, kSum),
      member("io_write_bytes", &Usage::io_write_bytes, kAlways, kSum),
      member("processes", &Usage::processes, kAlways, kPeakOfKnown),
      member("open_files", &Usage::open_files, kSince, kPeak),
      member("disk_limit_bytes", &Usage::disk_limit_bytes, kSince, kLater),
  };
}

template <class V>
void join(std::optional<V>& to, const std::optional<V>& later, Joined joined) {
  const bool known = joined != Joined::kPeakOfKnown || (to && later);
  to = known ? std::max(to, later) : std::nullopt;
}
template <std::integral V>
void join(V& to, V later, Joined joined) {
  if (joined == Joined::kSum) {
    if (__builtin_add_overflow(to, later, &to)) to = std::numeric_limits<V>::max();
  } else {
    to = joined == Joined::kLater ? later : std::max(to, later);
  }
}

inline void Usage::add(const Usage& later) {
  describe(*this, [&](const auto& member, auto& value) {
    join(value, later.*member.pointer, member.joined);
  });
}

// The first cause wins: later events do not change the value.
enum class End : uint8_t {
  kExited = 1,   // by itself, `exit_code`
  kSignaled,     // by a signal not ours, `signal`
  kTimedOut,     // wall limit
  kLimit,        // by another limit: `limits[0]`
  kCancelled,    // by request
  kRunnerLost,   // the runner died or broke its protocol
  kStartFailed,  // the program could not be started: `message`
};

struct CompileResult {
  int exit_code = 0;
  int64_t wall_ms = 0;
  std::string stdout_text;  // bounded by the output limit
  std::string stderr_text;
};

struct Outcome {
  End end = End::kRunnerLost;
  int exit_code = 0;
  int signal = 0;
  std::string message;           // for kRunnerLost, kStartFailed
  std::vector<LimitHit> limits;  // the fatal hit first
  Usage usage;
  std::optional<CompileResult> compile;  // when there was a compile step
  bool compile_failed = false;           // then `end` is about the compiler
  bool artifacts_truncated = false;
  int64_t started_at = 0;  // wall-clock microseconds
  int64_t finished_at = 0;
};

}  // namespace cloister::model
