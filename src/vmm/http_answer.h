// SPDX-License-Identifier: Apache-2.0
// One answer of an HTTP/1.1 server (RFC 9112) to a single request, for Firecracker's API. The
// server may be broken: only an exact answer of the expected form is accepted. Pure, without a
// heap.
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
