// SPDX-License-Identifier: Apache-2.0
// PoolStats: the sandboxes that a node keeps ready, and how the node served requests for sandboxes.
// Made by the pool, sent to the control plane, shown by the API.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::model {

// How long something took, each time since the node's start: a histogram of fixed buckets.
struct Durations {
  static constexpr std::array<uint32_t, 16> kBoundsMicros = {
      50,     100,    250,     500,     1'000,   2'000,     5'000,     10'000,
      20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 2'000'000, 5'000'000};

  std::array<uint64_t, kBoundsMicros.size() + 1> counts{};  // the last: longer than every bound
  uint64_t sum_micros = 0;

  void add(std::chrono::steady_clock::duration took);
  [[nodiscard]] uint64_t count() const;

  friend bool operator==(const Durations&, const Durations&) = default;
};

// Interchangeable sandboxes.
struct PoolKind {
  std::string language;         // whose interpreter was started ahead; "any": none was
  bool default_limits = false;  // built for the default limits
  uint64_t scratch_bytes = 0;   // size of their scratch file systems
  uint32_t ready = 0;
  uint32_t wanted = 0;   // ready ones to keep
  uint32_t making = 0;   // being made ahead of claims
  uint32_t waiting = 0;  // claims waiting for these

  friend bool operator==(const PoolKind&, const PoolKind&) = default;
};

// How a claim got its sandbox.
enum class Served : uint8_t {
  kReady,    // a ready sandbox was available
  kAwaited,  // waited for a sandbox being made ahead
  kCopied,   // of a zygote, on demand
  kMade,     // newly made, on demand
};
inline constexpr std::array<std::string_view, 4> kServedNames = {"ready", "awaited", "copied",
                                                                 "made"};

// Counts are since the node's start.
struct PoolStats {
  static constexpr size_t kMaxKinds = 128;
  // Label of kinds with an unknown language, and of all kinds beyond kMaxKinds together.
  static constexpr std::string_view kOther = "other";
  static constexpr std::string_view kAny = "any";

  // Why nothing is made ahead at present.
  enum class Held : uint8_t { kNo, kMemory, kCpu };
  static constexpr std::array<std::string_view, 3> kHeldNames = {"no", "memory", "cpu"};

  std::vector<PoolKind> kinds;
  Held held = Held::kNo;
  uint32_t zygotes = 0;  // ready zygotes
  uint32_t dying = 0;    // sandboxes being removed
  std::array<uint64_t, kServedNames.size()> served{};
  uint64_t failed = 0;   // claims without a sandbox
  uint64_t copies = 0;   // sandboxes made by zygotes, ahead or on demand
  uint64_t dead = 0;     // ready sandboxes found ended
  uint64_t drained = 0;  // ready ones removed because of a memory shortage
  Durations claim;       // duration of served claims
  Durations refill;      // duration of making ahead, including the program's start

  friend bool operator==(const PoolStats&, const PoolStats&) = default;
};

}  // namespace cloister::model
