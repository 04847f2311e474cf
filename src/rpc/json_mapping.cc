// SPDX-License-Identifier: Apache-2.0
#include "rpc/json_mapping.h"

#include <charconv>
#include <string>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include "base/crypto.h"

namespace cloister::rpc {
namespace {

namespace json = base::json;
namespace pb = google::protobuf;
using pb::Descriptor;
using pb::FieldDescriptor;

// The bounds of messages and answers hold before; these only keep the parser from refusing first.
constexpr base::JsonLimits kLimits{
    .max_bytes = size_t{2} << 30, .max_depth = 64, .max_values = 8'000'000};
constexpr std::string_view kPackage = "cloister.v1.";

// Struct, Timestamp and the like: json_util has JSON of their own for them.
bool isOurs(const Descriptor& type) {
  return std::string_view(type.full_name()).starts_with(kPackage);
}

bool isNamed(const Descriptor& type, std::string_view name) {
  const std::string_view full(type.full_name());
  return isOurs(type) && full.substr(kPackage.size()) == name;
}

// Calls `change` with each value of the field: the items of a list, the values of a map.
template <class Change>
void eachValue(const FieldDescriptor& field, json::value& value, Change change) {
  if (field.is_map()) {
    if (json::object* map = value.if_object()) {
      for (auto& member : *map)
        change(*field.message_type()->map_value(), member.value());
    }
  } else if (json::array* list = field.is_repeated() ? value.if_array() : nullptr) {
    for (json::value& item : *list)
      change(field, item);
  } else {
    change(field, value);
  }
}

// --- to the REST API
// ------------------------------------------------------------------------------

void exactNumber(const FieldDescriptor& field, json::value& value) {
  const json::string* text = value.if_string();
  if (text == nullptr) return;
  const auto read = [&](auto number) {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
    if (error == std::errc() && end == text->data() + text->size()) value = number;
  };
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) read(int64_t{});
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) read(uint64_t{});
}

void toShape(const Descriptor& type, json::object& object);

void toShape(const FieldDescriptor& field, json::value& value) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return exactNumber(field, value);
  if (json::object* inner = value.if_object()) toShape(*field.message_type(), *inner);
}

void toProgram(json::object& program) {
  if (json::value* argv = program.if_contains("argv")) {
    // With `command` beside it, the service refuses the request.
    json::value moved = std::move(*argv);
    program.erase("argv");
    program[program.contains("command") ? "argv" : "command"] = std::move(moved);
  }
  if (program.erase("no_artifacts") > 0 && !program.contains("artifacts")) {
    program["artifacts"] = json::array();
  }
  if (program.contains("input")) program["encoding"] = "base64";
}

void toShape(const Descriptor& type, json::object& object) {
  if (!isOurs(type)) return;
  for (auto& member : object) {
    const FieldDescriptor* field = type.FindFieldByName(std::string(member.key()));
    if (field == nullptr) continue;
    eachValue(*field, member.value(),
              [](const FieldDescriptor& each, json::value& value) { toShape(each, value); });
  }
  if (isNamed(type, "RunRequest") || isNamed(type, "ExecRequest")) toProgram(object);
  if (isNamed(type, "File")) {
    if (!object.contains("path")) object["path"] = "";
    if (!object.contains("content")) object["content"] = "";
    object["encoding"] = "base64";
  }
  if (isNamed(type, "SendInputRequest") && object.contains("data")) object["encoding"] = "base64";
}

// --- from the REST API
// ----------------------------------------------------------------------------

void fromShape(const Descriptor& type, json::object& object);

void fromShape(const FieldDescriptor& field, json::value& value) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return;
  if (json::object* inner = value.if_object()) fromShape(*field.message_type(), *inner);
}

// A text of the answer, as json_util reads `bytes`.
void toBytes(json::object& object, std::string_view name) {
  const std::string encoding = std::string(name) + "_encoding";
  json::value* value = object.if_contains(name);
  if (value == nullptr || !value->is_string() || object.contains(encoding)) return;
  const json::string& text = value->get_string();
  *value = base::toBase64({text.data(), text.size()});
}

void fromShape(const Descriptor& type, json::object& object) {
  if (!isOurs(type)) return;
  if (isNamed(type, "Execution") || isNamed(type, "Compile")) {
    toBytes(object, "stdout");
    toBytes(object, "stderr");
  }
  for (auto at = object.begin(); at != object.end();) {
    const FieldDescriptor* field = type.FindFieldByName(std::string(at->key()));
    if (field == nullptr || at->value().is_null()) {
      at = object.erase(at);  // puts the last member there
      continue;
    }
    eachValue(*field, at->value(),
              [](const FieldDescriptor& each, json::value& value) { fromShape(each, value); });
    ++at;
  }
}

}  // namespace

Result<json::object> toRequest(const pb::Message& message) {
  pb::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto written = pb::util::MessageToJsonString(message, &text, options);
  if (!written.ok()) {
    return fail(Code::kInvalid, "reading the message: " + std::string(written.message()));
  }
  json::value value = TRY(base::parseJson(text, kLimits));
  if (!value.is_object()) return fail(Code::kInternal, "reading the message: it is no object");
  toShape(*message.GetDescriptor(), value.get_object());
  return std::move(value.get_object());
}

Result<> fromAnswer(std::string_view body, pb::Message& message) {
  auto value = base::parseJson(body, kLimits);
  if (!value || !value->is_object()) {
    return fail(Code::kInternal, "reading the service's answer: it is no JSON object");
  }
  const Descriptor& type = *message.GetDescriptor();
  fromShape(type, value->get_object());
  pb::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const std::string text = base::toJson(*value);
  const auto read = pb::util::JsonStringToMessage(text, &message, options);
  if (!read.ok()) {
    return fail(Code::kInternal,
                "reading the service's answer: " + std::string(read.message().substr(0, 300)));
  }
  return {};
}

}  // namespace cloister::rpc
