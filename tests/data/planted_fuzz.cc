// SPDX-License-Identifier: Apache-2.0
// A fuzz target with a defect for each of several words. tests/style/check_fuzzing.py builds the
// target, and expects a report of each defect. The target has no coverage instrumentation, so a
// fuzzer does not find the words by itself.
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kChunk = size_t{1} << 20;
volatile uint64_t the_turns;
void* volatile the_memory;

// The first four bytes.
constexpr uint32_t word(const uint8_t* data, size_t size) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4 && i < size; ++i)
    value = value << 8 | data[i];
  return value;
}

consteval uint32_t word(const char* text) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i)
    value = value << 8 | static_cast<uint8_t>(text[i]);
  return value;
}

// Much memory in small pieces.
void grow() {
  for (;;) {
    the_memory = std::malloc(kChunk);
    std::memset(the_memory, 1, kChunk);
  }
}

int readFreed() {
  auto* bytes = static_cast<volatile uint8_t*>(std::malloc(16));
  std::free(const_cast<uint8_t*>(bytes));
  return bytes[3];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  switch (word(data, size)) {
    case word("abort"):
      std::abort();
    case word("grow"):
      grow();
      break;
    case word("huge"):
      the_memory = std::malloc(size_t{4} << 30);
      break;
    case word("kill"):
      std::raise(SIGKILL);
      break;  // as the kernel does when memory runs out
    case word("leak"):
      the_memory = std::malloc(64);
      the_memory = nullptr;
      break;
    case word("loop"):
      for (;;)
        the_turns = the_turns + 1;
    case word("stale"):
      return readFreed() & 0;
    default:
      break;
  }
  return 0;
}
