// SPDX-License-Identifier: Apache-2.0
// Answers of a VMM's API to its driver.
#include "vmm/http_answer.h"

#include <cstdint>

#include "require.h"

using cloister::vmm::Answer;
using cloister::vmm::parseAnswer;
using cloister::vmm::Parsed;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Answer answer;
  if (parseAnswer(bytes, answer) != Parsed::kWhole) return 0;
  REQUIRE(answer.status >= 200 && answer.status < 600);
  REQUIRE(answer.body.empty() || answer.body.data() + answer.body.size() == bytes.data() + size);
  Answer less;
  REQUIRE(parseAnswer(bytes.substr(0, size - 1), less) != Parsed::kWhole);
  return 0;
}
