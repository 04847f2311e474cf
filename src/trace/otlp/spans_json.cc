// SPDX-License-Identifier: Apache-2.0
#include "trace/otlp/spans_json.h"

#include <charconv>
#include <cstdint>

#include "base/json.h"

namespace cloister::trace::otlp {
namespace {

namespace json = base::json;

constexpr int kStatusError = 2;
constexpr size_t kMaxAnswer = size_t{64} << 10;

struct ToValue {
  json::object operator()(const std::string& text) const { return {{"stringValue", text}}; }
  json::object operator()(int64_t number) const { return {{"intValue", std::to_string(number)}}; }
  json::object operator()(bool flag) const { return {{"boolValue", flag}}; }
};

json::object attribute(std::string_view name, const Value& value) {
  return {{"key", name}, {"value", std::visit(ToValue(), value)}};
}

std::string nanos(int64_t micros) {
  return std::to_string(micros) + "000";
}

json::object toJson(const Span& span) {
  json::object object{{"traceId", model::toHex(span.at.trace)},
                      {"spanId", model::toHex(span.at.span)},
                      {"name", span.name},
                      {"kind", static_cast<int>(span.kind)},
                      {"startTimeUnixNano", nanos(span.start_us)},
                      {"endTimeUnixNano", nanos(span.end_us)}};
  if (span.parent != model::SpanId{}) object["parentSpanId"] = model::toHex(span.parent);
  json::array attributes;
  for (const auto& [name, value] : span.attributes)
    attributes.push_back(attribute(name, value));
  if (!attributes.empty()) object["attributes"] = std::move(attributes);
  if (!span.error.empty()) {
    object["status"] = json::object{{"code", kStatusError}, {"message", span.error}};
  }
  return object;
}

}  // namespace

std::string toRequest(const Resource& resource, std::span<const Span> spans) {
  json::array list;
  for (const Span& span : spans)
    list.push_back(toJson(span));
  json::object scope{{"scope", json::object{{"name", "cloister"}, {"version", resource.version}}},
                     {"spans", std::move(list)}};
  json::array of{attribute("service.name", std::string("cloister")),
                 attribute("service.version", resource.version),
                 attribute("service.instance.id", resource.instance)};
  json::object all{{"resource", json::object{{"attributes", std::move(of)}}},
                   {"scopeSpans", json::array{std::move(scope)}}};
  return base::toJson(json::object{{"resourceSpans", json::array{std::move(all)}}});
}

uint64_t rejectedIn(std::string_view answer) {
  const auto value = base::parseJson(answer, {.max_bytes = kMaxAnswer});
  const json::object* object = value ? value->if_object() : nullptr;
  const json::value* partial = object == nullptr ? nullptr : object->if_contains("partialSuccess");
  const json::object* success = partial == nullptr ? nullptr : partial->if_object();
  const json::value* count = success == nullptr ? nullptr : success->if_contains("rejectedSpans");
  if (count == nullptr) return 0;
  if (const json::string* text = count->if_string()) {
    uint64_t number = 0;
    std::from_chars(text->data(), text->data() + text->size(), number);
    return number;
  }
  const int64_t* number = count->if_int64();
  return number != nullptr && *number > 0 ? static_cast<uint64_t>(*number) : 0;
}

}  // namespace cloister::trace::otlp
