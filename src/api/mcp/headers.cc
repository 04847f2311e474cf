// SPDX-License-Identifier: Apache-2.0
#include "api/mcp/headers.h"

#include "base/crypto.h"
#include "base/json.h"

namespace cloister::api::mcp {
namespace {

constexpr std::string_view kOpen = "=?base64?";
constexpr std::string_view kClose = "?=";

std::optional<std::string> mustBe(const Request& request, std::string_view header,
                                  std::string_view shown, std::string_view wanted) {
  if (request.count(header) != 1) return std::string(shown) + ": must be given, once";
  const auto text = headerText(request.header(header));
  if (!text) return std::string(shown) + ": " + text.error().message;
  if (*text == wanted) return std::nullopt;
  return std::string(shown) + ": differs from what the message says";
}

// The parameter repeated by Mcp-Name.
std::string_view nameParameter(std::string_view method) {
  if (method == "tools/call" || method == "prompts/get") return "name";
  if (method == "resources/read") return "uri";
  return method.starts_with("tasks/") ? "taskId" : "";
}

std::string asText(const json::value& value) {
  if (const json::string* text = value.if_string()) return std::string(*text);
  return base::toJson(value);
}

}  // namespace

Result<std::string> headerText(std::string_view value) {
  while (!value.empty() && (value.front() == ' ' || value.front() == '\t'))
    value.remove_prefix(1);
  while (!value.empty() && (value.back() == ' ' || value.back() == '\t'))
    value.remove_suffix(1);
  if (!value.starts_with(kOpen) || !value.ends_with(kClose) ||
      value.size() < kOpen.size() + kClose.size()) {
    return std::string(value);
  }
  value.remove_prefix(kOpen.size());
  value.remove_suffix(kClose.size());
  auto text = base::fromBase64(value);
  if (!text || !base::isUtf8(*text)) return fail(Code::kInvalid, "is not base64 of UTF-8");
  return text;
}

std::optional<std::string> checkHeaders(const Request& request, const Message& message,
                                        std::string_view version) {
  if (auto bad = mustBe(request, "mcp-protocol-version", "MCP-Protocol-Version", version)) {
    return bad;
  }
  if (auto bad = mustBe(request, "mcp-method", "Mcp-Method", message.method)) return bad;
  const std::string_view parameter = nameParameter(message.method);
  if (parameter.empty()) return std::nullopt;
  const json::value* name = message.params.if_contains(parameter);
  if (name == nullptr || !name->is_string()) return std::nullopt;  // the handler reports the error
  return mustBe(request, "mcp-name", "Mcp-Name", std::string_view(name->get_string()));
}

std::optional<std::string> checkParameters(const Request& request, const json::object& schema,
                                           const json::object& arguments) {
  for (const auto& property : objectIn(schema, "properties")) {
    const json::object* described = property.value().if_object();
    const std::string marked = described == nullptr ? "" : textIn(*described, "x-mcp-header");
    if (marked.empty()) continue;
    const std::string shown = "Mcp-Param-" + marked;
    const std::string header = lowerCase(shown);
    const json::value* given = arguments.if_contains(property.key());
    if (given == nullptr || given->is_null()) {
      if (request.count(header) > 0) return shown + ": given for an argument that is not";
      continue;
    }
    if (auto bad = mustBe(request, header, shown, asText(*given))) return bad;
  }
  return std::nullopt;
}

}  // namespace cloister::api::mcp
