// SPDX-License-Identifier: Apache-2.0
// A tool of the interface /letta: the source of a function, its JSON schema and its requirements.
// The ledger keeps a tool as a document. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/run_request.h"
#include "store/document_store.h"

namespace cloister::api::compat::letta {

namespace json = base::json;

inline constexpr std::string_view kToolKind = "letta.tool";

enum class SourceType : uint8_t { kPython, kTypescript };
std::string_view sourceTypeName(SourceType type);

// A change of a tool, or a new tool: the present members of a body. Unknown members are ignored,
// since clients are newer than the service.
struct ToolBody {
  json::object members;  // as stored: those of kStored, checked
  bool has_source = false;
};
Result<ToolBody> readTool(const json::object& body, const model::RequestBounds& bounds);

// The tool's source, as stored or given.
SourceType sourceTypeOf(const json::object& stored);
std::string sourceOf(const json::object& stored);
// The requirements in the form of `deps`: of pip for Python, of npm for TypeScript. kInvalid names
// the member.
Result<std::vector<std::string>> depsOf(const json::object& stored, SourceType type);

// The name in a JSON schema; kInvalid if there is none, or it is no name of a function.
Result<std::string> nameIn(const json::object& schema);
bool isFunctionName(std::string_view name);

// The tool as shown to clients.
json::object shownTool(const store::Document& document, const json::object& stored);
// "tool-" and a UUID.
std::string newId(std::string_view prefix);

// The members of a stored document; an empty object if the text is damaged.
json::object membersOf(const store::Document& document);

}  // namespace cloister::api::compat::letta
