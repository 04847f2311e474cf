// SPDX-License-Identifier: Apache-2.0
#include "model/tool.h"

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "model/run_request.h"
#include "model/yaml.h"

namespace cloister::model {
namespace {

namespace json = base::json;
using Type = ToolArgument::Type;

constexpr size_t kMaxTools = 256;
constexpr size_t kMaxArguments = 32;
constexpr int64_t kMaxRetries = 5;
constexpr int64_t kMaxBytes = int64_t{16} << 20;

struct TypeName {
  std::string_view name;
  Type type;
  std::string_view schema;  // in JSON Schema
};
constexpr std::array<TypeName, 4> kTypes = {{{"text", Type::kText, "string"},
                                             {"integer", Type::kInteger, "integer"},
                                             {"boolean", Type::kBoolean, "boolean"},
                                             {"list", Type::kList, "array"}}};

// Members of a request that a session fixes at its creation.
constexpr std::array<std::string_view, 9> kOfSandbox = {"memory_mb",    "cpu_millis",     "disk_mb",
                                                        "file_size_mb", "inodes",         "pids",
                                                        "open_files",   "network_policy", "deps"};

std::unexpected<Error> invalid(const std::string& field, std::string_view why) {
  return fail(Code::kInvalid, field + ": " + std::string(why), field);
}

bool isWord(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, allowed);
}

// "shell.execute": words separated by dots.
bool isToolId(std::string_view text) {
  if (text.size() > 128) return false;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('.', at), text.size());
    if (!isWord(text.substr(at, end - at))) return false;
    at = end + 1;
  }
  return true;
}

// The name in a text of the form {name}; "" for any other.
std::string_view placeholder(std::string_view text) {
  const bool braces = text.size() > 2 && text.starts_with('{') && text.ends_with('}');
  const std::string_view name = braces ? text.substr(1, text.size() - 2) : std::string_view();
  return isWord(name) ? name : std::string_view();
}

// ---- a value for an argument -------------------------------------------------------------------

Result<> checkText(const ToolArgument& argument, const std::string& at, const json::value& value) {
  const json::string* text = value.if_string();
  if (text == nullptr) return invalid(at, "must be a string");
  if (text->size() > argument.max_bytes) {
    return fail(Code::kTooLarge,
                at + ": " + std::to_string(text->size()) + " bytes, but at most " +
                    std::to_string(argument.max_bytes) + " are allowed",
                at);
  }
  const auto& choices = argument.choices;
  if (choices.empty() || std::ranges::find(choices, std::string_view(*text)) != choices.end()) {
    return {};
  }
  std::string list;
  for (const std::string& each : choices)
    list += (list.empty() ? "" : ", ") + each;
  return invalid(at, "must be one of " + list);
}

Result<> checkInteger(const ToolArgument& argument, const std::string& at,
                      const json::value& value) {
  json::error_code error;
  const auto number = value.is_number() ? value.to_number<int64_t>(error) : 0;
  if (!value.is_number() || error) return invalid(at, "must be an integer");
  if (number >= argument.min && number <= argument.max) return {};
  return invalid(
      at, "must be from " + std::to_string(argument.min) + " to " + std::to_string(argument.max));
}

Result<> checkList(const ToolArgument& argument, const std::string& at, const json::value& value) {
  const json::array* items = value.if_array();
  if (items == nullptr) return invalid(at, "must be an array of strings");
  if (items->size() > argument.max_items) {
    return fail(Code::kTooLarge,
                at + ": " + std::to_string(items->size()) + " items, but at most " +
                    std::to_string(argument.max_items) + " are allowed",
                at);
  }
  for (size_t i = 0; i < items->size(); ++i)
    TRY(checkText(argument, at + "[" + std::to_string(i) + "]", (*items)[i]));
  return {};
}

Result<> checkValue(const ToolArgument& argument, const std::string& at, const json::value& value) {
  switch (argument.type) {
    case Type::kText:
      return checkText(argument, at, value);
    case Type::kInteger:
      return checkInteger(argument, at, value);
    case Type::kBoolean:
      return value.is_bool() ? Result<>() : invalid(at, "must be true or false");
    case Type::kList:
      return checkList(argument, at, value);
  }
  return invalid(at, "has no known type");
}

// ---- the registry ------------------------------------------------------------------------------

Result<Type> readType(base::ObjectReader& reader) {
  const std::string name = TRY(requiredText(reader, "type"));
  const auto* found = std::ranges::find(kTypes, name, &TypeName::name);
  if (found != kTypes.end()) return found->type;
  return invalid(reader.pathOf("type"), "must be text, integer, boolean or list");
}

Result<ToolArgument> readArgument(const json::object& object, const std::string& name,
                                  const std::string& path) {
  if (!isWord(name)) return invalid(path, "a name is lower-case letters, digits, - and _");
  base::ObjectReader reader(object, path);
  ToolArgument argument;
  argument.name = name;
  argument.type = TRY(readType(reader));
  argument.required = TRY(reader.boolean("required")).value_or(false);
  argument.max_bytes =
      static_cast<uint64_t>(TRY(reader.integer("max_bytes", 1, kMaxBytes))
                                .value_or(static_cast<int64_t>(argument.max_bytes)));
  argument.max_items = static_cast<uint64_t>(TRY(reader.integer("max_items", 1, 256)).value_or(64));
  argument.min = TRY(reader.integer("min", INT64_MIN, INT64_MAX)).value_or(0);
  argument.max = TRY(reader.integer("max", argument.min, INT64_MAX)).value_or(INT64_MAX);
  argument.choices = TRY(textList(reader, "choices"));
  argument.description = TRY(requiredText(reader, "description"));
  if (const json::value* otherwise = reader.any("default")) {
    if (argument.required)
      return invalid(path + ".default", "is for an argument that may be left out");
    TRY(checkValue(argument, path + ".default", *otherwise));
    argument.otherwise = *otherwise;
  }
  TRY(reader.finish());
  return argument;
}

Result<std::vector<ToolArgument>> readArguments(base::ObjectReader& reader) {
  std::vector<ToolArgument> arguments;
  const json::object* object = TRY(reader.object("arguments"));
  if (object == nullptr) return arguments;
  const std::string path = reader.pathOf("arguments");
  if (object->size() > kMaxArguments) return invalid(path, "has more than 32 members");
  for (const auto& member : *object) {
    const std::string name(member.key());
    const std::string at = path + "." + name;
    const json::object* inner = member.value().if_object();
    if (inner == nullptr) return invalid(at, "must be a map");
    arguments.push_back(TRY(readArgument(*inner, name, at)));
  }
  return arguments;
}

Result<ToolRetry> readRetry(base::ObjectReader& reader) {
  ToolRetry retry;
  const json::object* object = TRY(reader.object("retry"));
  if (object == nullptr) return retry;
  base::ObjectReader inner(*object, reader.pathOf("retry"));
  retry.startup = static_cast<uint32_t>(TRY(inner.integer("startup", 0, kMaxRetries)).value_or(0));
  retry.timeout = static_cast<uint32_t>(TRY(inner.integer("timeout", 0, kMaxRetries)).value_or(0));
  TRY(inner.finish());
  return retry;
}

// Checks that each text with braces is a placeholder of a known argument.
Result<> checkTemplate(const Tool& tool, const json::value& value, const std::string& path) {
  if (const json::object* object = value.if_object()) {
    for (const auto& member : *object)
      TRY(checkTemplate(tool, member.value(), path + "." + std::string(member.key())));
  }
  if (const json::array* items = value.if_array()) {
    for (size_t i = 0; i < items->size(); ++i)
      TRY(checkTemplate(tool, (*items)[i], path + "[" + std::to_string(i) + "]"));
  }
  const json::string* text = value.if_string();
  if (text == nullptr || text->find('{') == json::string::npos) return {};
  const std::string_view name = placeholder(*text);
  if (std::ranges::find(tool.arguments, name, &ToolArgument::name) != tool.arguments.end())
    return {};
  return invalid(path, "braces may hold the name of an argument only, and must stand alone");
}

// Checks that arguments for a command are behind "--", so that no program takes an argument for an
// option.
Result<> checkCommand(const json::object& request, const std::string& path) {
  const json::value* command = request.if_contains("command");
  const json::array* argv = command != nullptr ? command->if_array() : nullptr;
  if (argv == nullptr) return {};
  bool operands = false;
  for (size_t i = 0; i < argv->size(); ++i) {
    const json::string* word = (*argv)[i].if_string();
    if (word == nullptr) continue;
    operands = operands || *word == "--";
    if (!operands && !placeholder(*word).empty()) {
      return invalid(path + ".command[" + std::to_string(i) + "]",
                     "an argument must come behind \"--\", or it could be an option");
    }
  }
  return {};
}

json::value sampleOf(const ToolArgument& argument) {
  const json::value text =
      argument.choices.empty() ? json::value("x") : json::value(argument.choices[0]);
  switch (argument.type) {
    case Type::kText:
      return text;
    case Type::kInteger:
      return std::max<int64_t>(argument.min, std::min<int64_t>(argument.max, 1));
    case Type::kBoolean:
      return true;
    case Type::kList:
      return json::array{text};
  }
  return nullptr;
}

// Checks that sample arguments give a valid request.
Result<> tryOut(const Tool& tool, const std::string& path) {
  json::object arguments;
  for (const ToolArgument& argument : tool.arguments)
    arguments[argument.name] = sampleOf(argument);
  auto run = parseRunRequest(TRY(requestOf(tool, arguments)), defaultBounds());
  auto held = run ? holdToRules(tool.id, tool.rules, ToolPlace::kOwnSandbox, *run)
                  : Result<>(std::unexpected(std::move(run).error()));
  if (held) return {};
  return invalid(path + (held.error().field.empty() ? "" : "." + held.error().field),
                 held.error().message);
}

Result<Tool> readTool(const json::object& object, const std::string& path, const RiskTiers& tiers) {
  base::ObjectReader reader(object, path);
  Tool tool;
  tool.id = TRY(requiredText(reader, "id"));
  if (!isToolId(tool.id))
    return invalid(path + ".id", R"(must be words with dots, as "shell.execute")");
  tool.title = TRY(requiredText(reader, "title"));
  tool.why = TRY(requiredText(reader, "why"));
  tool.tool_type = TRY(requiredText(reader, "tool_type"));
  tool.rules = TRY(readToolRules(reader, tiers));
  tool.retry = TRY(readRetry(reader));
  tool.arguments = TRY(readArguments(reader));
  const json::object* request = TRY(reader.object("request"));
  if (request == nullptr) return invalid(path + ".request", "is required");
  if (request->contains("metadata")) {
    return invalid(path + ".request.metadata", "is the caller's");
  }
  if (request->contains("network_policy")) {
    return invalid(path + ".request.network_policy", "is the tool's `network`; leave it out");
  }
  TRY(checkTemplate(tool, *request, path + ".request"));
  TRY(checkCommand(*request, path + ".request"));
  tool.request = *request;
  TRY(reader.finish());
  TRY(tryOut(tool, path + ".request"));
  return tool;
}

Result<std::vector<Tool>> readTools(const json::object& document) {
  base::ObjectReader reader(document, "");
  if (TRY(reader.integer("version", 1, 1)) != 1) return invalid("version", "must be 1");
  const RiskTiers tiers = TRY(readRiskTiers(reader));
  const json::array* items = TRY(reader.array("tools"));
  TRY(reader.finish());
  if (items == nullptr) return invalid("tools", "is required");
  if (items->size() > kMaxTools) return invalid("tools", "has more than 256 items");
  std::vector<Tool> tools;
  for (const json::value& item : *items) {
    const std::string path = "tools[" + std::to_string(tools.size()) + "]";
    const json::object* object = item.if_object();
    if (object == nullptr) return invalid(path, "must be a map");
    Tool tool = TRY(readTool(*object, path, tiers));
    if (std::ranges::find(tools, tool.id, &Tool::id) != tools.end()) {
      return invalid(path + ".id", "\"" + tool.id + "\" is there already");
    }
    tools.push_back(std::move(tool));
  }
  return tools;
}

// ---- from a call to a request ------------------------------------------------------------------

// A template value with arguments filled in; nullopt if its argument is absent.
std::optional<json::value> filled(const json::value& value, const json::object& arguments) {
  if (const json::object* object = value.if_object()) {
    json::object whole;
    for (const auto& member : *object) {
      if (auto inner = filled(member.value(), arguments)) whole[member.key()] = *std::move(inner);
    }
    return whole;
  }
  if (const json::array* items = value.if_array()) {
    json::array whole;
    for (const json::value& item : *items) {
      auto inner = filled(item, arguments);
      const json::array* list = inner && item.is_string() ? inner->if_array() : nullptr;
      if (list != nullptr) {
        whole.insert(whole.end(), list->begin(), list->end());
      } else if (inner) {
        whole.push_back(*std::move(inner));
      }
    }
    return whole;
  }
  const json::string* text = value.if_string();
  const std::string_view name = text != nullptr ? placeholder(*text) : std::string_view();
  if (name.empty()) return value;
  const json::value* argument = arguments.if_contains(name);
  return argument != nullptr ? std::optional(*argument) : std::nullopt;
}

// The given arguments, checked, with defaults for absent ones.
Result<json::object> settled(const Tool& tool, const json::object& given) {
  base::ObjectReader reader(given, "arguments");
  json::object arguments;
  for (const ToolArgument& argument : tool.arguments) {
    const json::value* value = reader.any(argument.name);
    const std::string at = reader.pathOf(argument.name);
    if (value != nullptr) {
      TRY(checkValue(argument, at, *value));
      arguments[argument.name] = *value;
    } else if (argument.required) {
      return invalid(at, "is required: " + argument.description);
    } else if (!argument.otherwise.is_null()) {
      arguments[argument.name] = argument.otherwise;
    }
  }
  TRY(reader.finish());
  return arguments;
}

json::object schemaOf(const ToolArgument& argument) {
  const auto* type = std::ranges::find(kTypes, argument.type, &TypeName::type);
  json::object schema{{"type", type->schema}, {"description", argument.description}};
  json::object text{{"type", "string"}, {"maxLength", argument.max_bytes}};
  if (!argument.choices.empty()) {
    text["enum"] = json::array(argument.choices.begin(), argument.choices.end());
  }
  if (argument.type == Type::kText) schema.insert(text.begin(), text.end());
  if (argument.type == Type::kList) {
    schema["items"] = text;
    schema["maxItems"] = argument.max_items;
  }
  if (argument.type == Type::kInteger) {
    schema["minimum"] = argument.min;
    schema["maximum"] = argument.max;
  }
  if (!argument.otherwise.is_null()) schema["default"] = argument.otherwise;
  return schema;
}

}  // namespace

Result<ToolSet> ToolSet::parse(std::string_view yaml, std::string_view name) {
  YamlLines lines;
  const json::object document = TRY(parseYaml(yaml, name, &lines));
  auto tools = readTools(document);
  if (!tools) {
    Error error = std::move(tools).error();
    const int line = lineOf(lines, error.field);
    const std::string at = std::string(name) + (line > 0 ? ":" + std::to_string(line) : "");
    return std::unexpected(std::move(error).within(at));
  }
  ToolSet set;
  set.tools_ = *std::move(tools);
  return set;
}

Result<const Tool*> ToolSet::find(std::string_view id) const {
  const auto found = std::ranges::find(tools_, id, &Tool::id);
  if (found != tools_.end()) return &*found;
  std::vector<std::string> ids;
  for (const Tool& tool : tools_)
    ids.push_back(tool.id);
  const std::string near = base::nearestName(id, ids);
  return fail(Code::kNotFound,
              "tool_id: there is no such tool" + (near.empty() ? "; GET /v1/capabilities lists them"
                                                               : "; did you mean " + near + "?"),
              "tool_id");
}

Result<json::object> requestOf(const Tool& tool, const json::object& arguments) {
  const json::object settled_arguments = TRY(settled(tool, arguments));
  return filled(tool.request, settled_arguments)->get_object();
}

Result<json::object> sessionRequestOf(const Tool& tool, const json::object& arguments) {
  json::object request = TRY(requestOf(tool, arguments));
  for (const std::string_view own : {"runtime", "image", "tier"}) {
    if (request.contains(own)) {
      return invalid("session_id", tool.id + " needs a sandbox of its own: it names a " +
                                       std::string(own) + "; call it without a session");
    }
  }
  for (const std::string_view member : kOfSandbox)
    request.erase(member);
  return request;
}

json::object toJsonObject(const Tool& tool) {
  json::object properties;
  json::array required;
  for (const ToolArgument& argument : tool.arguments) {
    properties[argument.name] = schemaOf(argument);
    if (argument.required) required.emplace_back(argument.name);
  }
  json::object shown = {
      {"id", tool.id},
      {"title", tool.title},
      {"why", tool.why},
      {"tool_type", tool.tool_type},
      {"retry", {{"startup", tool.retry.startup}, {"timeout", tool.retry.timeout}}},
      {"arguments",
       {{"type", "object"},
        {"properties", std::move(properties)},
        {"required", std::move(required)},
        {"additionalProperties", false}}},
      {"request", tool.request}};
  const json::object rules = toJsonObject(tool.rules);
  shown.insert(rules.begin(), rules.end());
  return shown;
}

}  // namespace cloister::model
