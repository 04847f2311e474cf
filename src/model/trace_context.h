// SPDX-License-Identifier: Apache-2.0
// TraceContext: the place of a piece of work in a distributed trace (W3C Trace Context, Level 1).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cloister::model {

using TraceId = std::array<uint8_t, 16>;
using SpanId = std::array<uint8_t, 8>;

struct TraceContext {
  TraceId trace{};  // zeros: no trace
  SpanId span{};    // zeros: no span yet
  bool sampled = false;

  // Whether spans beneath are recorded.
  explicit operator bool() const { return sampled && trace != TraceId{}; }
  bool operator==(const TraceContext&) const = default;
};

// The value of a `traceparent` header; nullopt for a value that the standard tells to ignore.
std::optional<TraceContext> parseTraceparent(std::string_view text);
// "00-<trace>-<span>-<flags>".
std::string toTraceparent(const TraceContext& context);

// Lower-case hex.
std::string toHex(const TraceId& id);
std::string toHex(const SpanId& id);

}  // namespace cloister::model
