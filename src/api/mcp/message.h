// SPDX-License-Identifier: Apache-2.0
// JSON-RPC 2.0 as used by MCP: a message from bytes of a hostile client, and the envelopes of
// answers. Pure. The only parser of such bytes: the server and the fuzzer share the code.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "api/mcp/protocol.h"

namespace cloister::api::mcp {

struct RpcError {
  int code = code::kInternal;
  std::string message;
  json::value data = nullptr;  // null: none
  int status = 200;            // of HTTP
};

std::unexpected<RpcError> rpcError(int code, std::string message, int status = 200,
                                   json::value data = nullptr);

template <class T>
using Rpc = std::expected<T, RpcError>;
using Reply = Rpc<json::object>;  // a request's result

enum class Kind : uint8_t { kRequest, kNotification, kResponse };

struct Message {
  Kind kind = Kind::kRequest;
  json::value id;  // a string or an integer; null of a notification
  std::string method;
  json::object params;
  json::object whole;  // of a response: `result` or `error`
};

struct Unreadable {
  json::value id;  // null where none can be told
  RpcError error;
};

// Refuses anything except a single JSON-RPC 2.0 message: arrays, null or fractional ids, parameters
// other than an object.
std::expected<Message, Unreadable> parseMessage(std::string_view text, size_t max_bytes);

json::object resultMessage(const json::value& id, json::object result);
// A null `id` is left out.
json::object errorMessage(const json::value& id, const RpcError& error);
json::object notification(std::string_view method, json::object params);

// A member of `object` of the type object; an empty object otherwise.
const json::object& objectIn(const json::object& object, std::string_view name);
// A member of `object` of the type text; "" otherwise.
std::string textIn(const json::object& object, std::string_view name);

}  // namespace cloister::api::mcp
