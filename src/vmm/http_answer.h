// SPDX-License-Identifier: Apache-2.0
// One answer of an HTTP/1.1 server (RFC 9112) to a request that was sent alone: what Firecracker's
// API says. Whoever says it may be broken: nothing is taken that is not exactly such an answer.
// Pure, without a heap.
#pragma once

#include <cstddef>
#include <string_view>

namespace cloister::vmm {

// Maximum length of an answer with its head.
inline constexpr size_t kMostAnswer = 8'192;

struct Answer {
  int status = 0;
  std::string_view body;  // part of the parsed bytes
};

enum class Parsed { kMore, kWhole, kMalformed };

// Whether `bytes`, all received so far, are a complete answer. kMalformed as well for more than an
// answer, for more than kMostAnswer, or for a body whose length the head does not give.
Parsed parseAnswer(std::string_view bytes, Answer& answer);

}  // namespace cloister::vmm
