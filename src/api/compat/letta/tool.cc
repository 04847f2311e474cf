// SPDX-License-Identifier: Apache-2.0
#include "api/compat/letta/tool.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/id.h"

namespace cloister::api::compat::letta {
namespace {

constexpr int64_t kReturnChars = 50'000;
constexpr int64_t kMaxReturnChars = 1'000'000;
constexpr size_t kMaxName = 64;
constexpr size_t kMaxTags = 64;

enum class Kind : uint8_t { kText, kObject, kFlag, kTexts, kRequirements, kChars };

struct Member {
  std::string_view name;
  Kind kind;
};
constexpr auto kStored = std::to_array<Member>({{"source_code", Kind::kText},
                                                {"source_type", Kind::kText},
                                                {"description", Kind::kText},
                                                {"json_schema", Kind::kObject},
                                                {"args_json_schema", Kind::kObject},
                                                {"metadata_", Kind::kObject},
                                                {"default_requires_approval", Kind::kFlag},
                                                {"enable_parallel_execution", Kind::kFlag},
                                                {"tags", Kind::kTexts},
                                                {"pip_requirements", Kind::kRequirements},
                                                {"npm_requirements", Kind::kRequirements},
                                                {"return_char_limit", Kind::kChars}});

std::unexpected<Error> bad(std::string_view name, std::string_view wanted) {
  return fail(Code::kInvalid, std::string(name) + ": must be " + std::string(wanted),
              std::string(name));
}

bool areTexts(const json::array& items) {
  return std::ranges::all_of(items, [](const json::value& each) { return each.is_string(); });
}

bool isRequirement(const json::value& item) {
  const json::object* object = item.if_object();
  if (object == nullptr) return false;
  const json::value* name = object->if_contains("name");
  const json::value* version = object->if_contains("version");
  return name != nullptr && name->is_string() && !name->get_string().empty() &&
         (version == nullptr || version->is_null() || version->is_string());
}

Result<> check(const Member& member, const json::value& value, const model::RequestBounds& bounds) {
  const json::array* items = value.if_array();
  switch (member.kind) {
    case Kind::kText:
      if (!value.is_string()) return bad(member.name, "a text");
      return {};
    case Kind::kObject:
      if (!value.is_object()) return bad(member.name, "an object");
      return {};
    case Kind::kFlag:
      if (!value.is_bool()) return bad(member.name, "true or false");
      return {};
    case Kind::kTexts:
      if (items == nullptr || items->size() > kMaxTags || !areTexts(*items)) {
        return bad(member.name, "a list of at most " + std::to_string(kMaxTags) + " texts");
      }
      return {};
    case Kind::kRequirements:
      if (items == nullptr || items->size() > bounds.items ||
          !std::ranges::all_of(*items, isRequirement)) {
        return bad(member.name, "a list of at most " + std::to_string(bounds.items) +
                                    " objects with a name, and a version or none");
      }
      return {};
    case Kind::kChars:
      if (!value.is_int64() || value.get_int64() < 1 || value.get_int64() > kMaxReturnChars) {
        return bad(member.name, "a whole number from 1 to " + std::to_string(kMaxReturnChars));
      }
      return {};
  }
  return {};
}

const json::value* present(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string textIn(const json::object& object, std::string_view name) {
  const json::value* value = present(object, name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

// "numpy" with "1.26" is "numpy==1.26"; a version may begin with an operator of its own.
std::string requirementOf(const json::object& item, SourceType type) {
  const std::string name = textIn(item, "name");
  const std::string version = textIn(item, "version");
  if (version.empty()) return name;
  if (type == SourceType::kTypescript) return name + "@" + version;
  return name + (std::string_view("=<>!~").contains(version.front()) ? "" : "==") + version;
}

}  // namespace

std::string_view sourceTypeName(SourceType type) {
  return type == SourceType::kTypescript ? "typescript" : "python";
}

Result<ToolBody> readTool(const json::object& body, const model::RequestBounds& bounds) {
  ToolBody tool;
  for (const Member& member : kStored) {
    const json::value* value = present(body, member.name);
    if (value == nullptr) continue;
    TRY(check(member, *value, bounds));
    tool.members[member.name] = *value;
  }
  const std::string type = textIn(tool.members, "source_type");
  if (!type.empty() && type != "python" && type != "typescript") {
    return bad("source_type", "python or typescript");
  }
  const std::string source = textIn(tool.members, "source_code");
  if (source.size() > bounds.code_bytes) {
    return fail(Code::kTooLarge,
                "source_code: must have at most " + std::to_string(bounds.code_bytes) + " bytes",
                "source_code");
  }
  tool.has_source = !source.empty();
  return tool;
}

SourceType sourceTypeOf(const json::object& stored) {
  return textIn(stored, "source_type") == "typescript" ? SourceType::kTypescript
                                                       : SourceType::kPython;
}

std::string sourceOf(const json::object& stored) {
  return textIn(stored, "source_code");
}

Result<std::vector<std::string>> depsOf(const json::object& stored, SourceType type) {
  const bool npm = type == SourceType::kTypescript;
  const std::string_view own = npm ? "npm_requirements" : "pip_requirements";
  const std::string_view other = npm ? "pip_requirements" : "npm_requirements";
  if (const json::value* items = present(stored, other);
      items != nullptr && !items->as_array().empty()) {
    return fail(Code::kInvalid,
                std::string(other) + ": a tool in " + std::string(sourceTypeName(type)) +
                    " takes " + std::string(own),
                std::string(other));
  }
  std::vector<std::string> deps;
  if (const json::value* items = present(stored, own)) {
    for (const json::value& item : items->as_array())
      deps.push_back(requirementOf(item.as_object(), type));
  }
  return deps;
}

bool isFunctionName(std::string_view name) {
  return name.size() <= kMaxName && model::isEnvironmentName(name);
}

Result<std::string> nameIn(const json::object& schema) {
  const std::string name = textIn(schema, "name");
  if (isFunctionName(name)) return name;
  return fail(
      Code::kInvalid,
      "json_schema.name: must be the name of the function: letters, digits and _, at most " +
          std::to_string(kMaxName),
      "json_schema.name");
}

json::object shownTool(const store::Document& document, const json::object& stored) {
  json::object shown{{"id", document.id},
                     {"name", document.name},
                     {"tool_type", "custom"},
                     {"source_type", "python"},
                     {"description", nullptr},
                     {"json_schema", nullptr},
                     {"args_json_schema", nullptr},
                     {"tags", json::array()},
                     {"pip_requirements", nullptr},
                     {"npm_requirements", nullptr},
                     {"return_char_limit", kReturnChars},
                     {"default_requires_approval", nullptr},
                     {"enable_parallel_execution", false},
                     {"metadata_", json::object()},
                     {"project_id", nullptr},
                     {"created_by_id", document.created_by},
                     {"last_updated_by_id", document.updated_by},
                     {"version", document.version}};
  for (const auto& member : stored)
    shown[member.key()] = member.value();
  return shown;
}

std::string newId(std::string_view prefix) {
  constexpr size_t kDashes[] = {8, 13, 18, 23};
  std::string uuid = base::randomHex(16);
  uuid[12] = '4';
  uuid[16] = "89ab"[static_cast<unsigned char>(uuid[16]) % 4];
  for (const size_t at : kDashes)
    uuid.insert(at, 1, '-');
  return std::string(prefix) + "-" + uuid;
}

json::object membersOf(const store::Document& document) {
  auto value = base::parseJson(document.json, {.max_bytes = SIZE_MAX});
  return value && value->is_object() ? std::move(value->get_object()) : json::object();
}

}  // namespace cloister::api::compat::letta
