// SPDX-License-Identifier: Apache-2.0
#include "model/trace_context.h"

#include "base/crypto.h"

namespace cloister::model {
namespace {

constexpr size_t kLength = 55;  // of version 00
constexpr uint8_t kSampled = 1;

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;  // capitals are not allowed
}

template <size_t N>
bool readHex(std::string_view text, std::array<uint8_t, N>& bytes) {
  for (size_t i = 0; i < N; ++i) {
    const int high = digit(text[2 * i]);
    const int low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

template <size_t N>
std::string hexOf(const std::array<uint8_t, N>& bytes) {
  return base::toHex({reinterpret_cast<const char*>(bytes.data()), N});
}

}  // namespace

// A later version may have more members, each after another dash; the first four stay.
std::optional<TraceContext> parseTraceparent(std::string_view text) {
  if (text.size() < kLength || (text.size() > kLength && text[kLength] != '-')) return std::nullopt;
  if (text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  std::array<uint8_t, 1> version{};
  std::array<uint8_t, 1> flags{};
  TraceContext context;
  if (!readHex(text, version) || !readHex(text.substr(3), context.trace) ||
      !readHex(text.substr(36), context.span) || !readHex(text.substr(53), flags)) {
    return std::nullopt;
  }
  if (version[0] == 0xFF || (version[0] == 0 && text.size() != kLength)) return std::nullopt;
  if (context.trace == TraceId{} || context.span == SpanId{}) return std::nullopt;
  context.sampled = (flags[0] & kSampled) != 0;
  return context;
}

std::string toTraceparent(const TraceContext& context) {
  return "00-" + toHex(context.trace) + "-" + toHex(context.span) +
         (context.sampled ? "-01" : "-00");
}

std::string toHex(const TraceId& id) {
  return hexOf(id);
}

std::string toHex(const SpanId& id) {
  return hexOf(id);
}

}  // namespace cloister::model
