// SPDX-License-Identifier: Apache-2.0
// One answer of an HTTP/1.1 server (RFC 9112) to a request that was sent alone: what Firecracker's
// API says. Whoever says it may be broken: nothing is taken that is not exactly such an answer.
// Pure, without a heap.
#pragma once

#include <cstddef>
#include <string_view>

namespace cloister::vmm {

// An answer is at most this long, with its head.
inline constexpr size_t kMostAnswer = 8'192;

struct Answer {
  int status = 0;
  std::string_view body;  // of the bytes that were parsed
};

enum class Parsed { kMore, kWhole, kMalformed };

// Whether `bytes`, all that has come so far, are a whole answer. kMalformed also where they are
// more than one, or more than kMostAnswer, or of a length that their head does not say.
Parsed parseAnswer(std::string_view bytes, Answer& answer);

}  // namespace cloister::vmm
