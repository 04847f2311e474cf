// SPDX-License-Identifier: Apache-2.0
// Messages of MCP: an accepted message has an id and a method within their bounds, and survives
// being written again. Any other input is answered with an error that fits its id.
#include "api/mcp/headers.h"
#include "api/mcp/message.h"
#include "api/mcp/text.h"

#include "require.h"

using namespace cloister;
using namespace cloister::api;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMost = 1 << 20;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string plain = mcp::plainText(text);
  REQUIRE(base::isUtf8(plain));
  REQUIRE(mcp::plainText(plain) == plain);
  REQUIRE(base::isUtf8(mcp::excerpt(text, size, 64, "").text));
  const auto header = mcp::headerText(text);
  REQUIRE(!header || header->size() <= size);

  const auto message = mcp::parseMessage(text, kMost);
  if (!message) {
    REQUIRE(!message.error().error.message.empty());
    REQUIRE(!message.error().id.is_structured());
    const auto told = mcp::errorMessage(message.error().id, message.error().error);
    REQUIRE(base::parseJson(base::toJson(told)));
    return 0;
  }
  if (message->kind == mcp::Kind::kResponse) return 0;
  REQUIRE(!message->method.empty());
  base::json::object again = mcp::notification(message->method, message->params);
  if (message->kind == mcp::Kind::kRequest) again["id"] = message->id;
  const auto reread = mcp::parseMessage(base::toJson(again), 2 * kMost);
  REQUIRE(reread);
  REQUIRE(reread->kind == message->kind && reread->method == message->method);
  REQUIRE(reread->params.size() == message->params.size());
  return 0;
}
