// SPDX-License-Identifier: Apache-2.0
// Outcome: what a sandbox says of one exec. The program's end, the limits it met and what it used;
// never an Error, which is ours.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

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

  // Adds the usage of a later sandbox: peaks become the maximum of both. Sums made too large by a
  // hostile node stay at their maximum.
  void add(const Usage& later) {
    const auto sum = [](auto& to, auto more) {
      if (__builtin_add_overflow(to, more, &to)) to = std::numeric_limits<decltype(more)>::max();
    };
    sum(wall_ms, later.wall_ms);
    sum(cpu_ms, later.cpu_ms);
    max_rss_bytes = std::max(max_rss_bytes, later.max_rss_bytes);
    memory_bytes = later.memory_bytes;
    cpu_millis = later.cpu_millis;
    sum(io_read_bytes, later.io_read_bytes);
    sum(io_write_bytes, later.io_write_bytes);
    processes = processes && later.processes ? std::max(processes, later.processes) : std::nullopt;
    open_files = std::max(open_files, later.open_files);
    disk_limit_bytes = later.disk_limit_bytes;
  }
};

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
