// SPDX-License-Identifier: Apache-2.0
// The answers of a session's file server, as parsed by its client; its failure messages; and the
// messages of its socket for tool calls.
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
