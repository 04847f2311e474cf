// SPDX-License-Identifier: Apache-2.0
// What a session's file server answers, as its client takes it apart; what it says of a failure;
// and what its socket for tool calls says.
#include <cstdint>

#include "wire/files_codec.h"

#include "require.h"

namespace files = cloister::wire::files;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  REQUIRE(!files::failure(bytes).message.empty());
  std::string_view rest = bytes;
  while (true) {
    const std::string_view before = rest;
    const auto part = files::takePart(rest);
    if (!part || !*part) break;
    REQUIRE(rest.size() < before.size());
    REQUIRE(files::encode(**part) == before.substr(0, before.size() - rest.size()));
  }
  rest = bytes;
  while (true) {
    const std::string_view before = rest;
    const auto call = files::takeToolCall(rest);
    if (!call || !*call) break;
    REQUIRE((*call)->caller < files::kMostToolCallers);
    REQUIRE((*call)->line.size() + 8 == before.size() - rest.size());
  }
  return 0;
}
