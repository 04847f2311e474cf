// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/message.h"

#include <utility>

namespace cloister::api::mcp {
namespace {

constexpr size_t kMaxId = 256;
constexpr size_t kMaxMethod = 256;

bool isId(const json::value& id) {
  return id.is_int64() || id.is_uint64() || (id.is_string() && id.get_string().size() <= kMaxId);
}

std::unexpected<Unreadable> unreadable(json::value id, int code, std::string message) {
  return std::unexpected(Unreadable{
      std::move(id), RpcError{.code = code, .message = std::move(message), .status = 400}});
}

}  // namespace

std::unexpected<RpcError> rpcError(int code, std::string message, int status, json::value data) {
  return std::unexpected(RpcError{
      .code = code, .message = std::move(message), .data = std::move(data), .status = status});
}

std::expected<Message, Unreadable> parseMessage(std::string_view text, size_t max_bytes) {
  Result<json::value> parsed = base::parseJson(text, {.max_bytes = max_bytes});
  if (!parsed) return unreadable(nullptr, code::kParse, parsed.error().message);
  if (parsed->is_array()) {
    return unreadable(nullptr, code::kInvalidRequest,
                      "batches are not supported: send one message at a time");
  }
  if (!parsed->is_object()) {
    return unreadable(nullptr, code::kInvalidRequest, "a message must be a JSON object");
  }
  json::object& whole = parsed->get_object();
  Message message;
  const json::value* id = whole.if_contains("id");
  if (id != nullptr && !isId(*id)) {
    return unreadable(nullptr, code::kInvalidRequest,
                      "id: must be a string of at most 256 bytes or an integer");
  }
  if (id != nullptr) message.id = *id;
  if (textIn(whole, "jsonrpc") != "2.0") {
    return unreadable(message.id, code::kInvalidRequest, "jsonrpc: must be \"2.0\"");
  }
  if (!whole.contains("method")) {
    if (id == nullptr || whole.contains("result") == whole.contains("error")) {
      return unreadable(message.id, code::kInvalidRequest, "method: is required");
    }
    message.kind = Kind::kResponse;
    message.whole = std::move(whole);
    return message;
  }
  message.kind = id == nullptr ? Kind::kNotification : Kind::kRequest;
  message.method = textIn(whole, "method");
  if (message.method.empty() || message.method.size() > kMaxMethod) {
    return unreadable(message.id, code::kInvalidRequest,
                      "method: must be a string of 1 to 256 bytes");
  }
  if (json::value* params = whole.if_contains("params")) {
    if (!params->is_object()) {
      return unreadable(message.id, code::kInvalidRequest, "params: must be an object");
    }
    message.params = std::move(params->get_object());
  }
  return message;
}

json::object resultMessage(const json::value& id, json::object result) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}};
}

json::object errorMessage(const json::value& id, const RpcError& error) {
  json::object told{{"code", error.code}, {"message", error.message}};
  if (!error.data.is_null()) told["data"] = error.data;
  json::object message{{"jsonrpc", "2.0"}};
  if (!id.is_null()) message["id"] = id;
  message["error"] = std::move(told);
  return message;
}

json::object notification(std::string_view method, json::object params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

const json::object& objectIn(const json::object& object, std::string_view name) {
  static const json::object kNone;
  const json::value* value = object.if_contains(name);
  const json::object* inner = value == nullptr ? nullptr : value->if_object();
  return inner == nullptr ? kNone : *inner;
}

std::string textIn(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  const json::string* text = value == nullptr ? nullptr : value->if_string();
  return text == nullptr ? std::string() : std::string(*text);
}

}  // namespace cloister::api::mcp
