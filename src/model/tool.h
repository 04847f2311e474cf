// SPDX-License-Identifier: Apache-2.0
// Tools: the capability registry (policies/tools.yaml). A tool call names a tool and gives
// arguments. The tool defines the valid arguments and the resulting run request. Pure.
//
// Arguments are hostile. An argument replaces a whole value in the request's template, never a part
// of a value, so no argument can become more than one value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/tool_rules.h"

namespace cloister::model {

struct ToolArgument {
  enum class Type : uint8_t { kText, kInteger, kBoolean, kList };  // kList: of texts

  std::string name;
  Type type = Type::kText;
  bool required = false;
  uint64_t max_bytes = 65'536;  // of a text, or of each in a list
  uint64_t max_items = 64;      // of a list
  int64_t min = 0;              // of an integer, as `max`
  int64_t max = INT64_MAX;
  std::vector<std::string> choices;  // of a text; empty: any
  base::json::value otherwise;       // default; null: the argument stays absent
  std::string description;
};

// Number of retries of a call, by cause.
struct ToolRetry {
  uint32_t startup = 0;  // its sandbox could not be started, and nothing ran
  uint32_t timeout = 0;  // its time was over
};

struct Tool {
  std::string id;     // "shell.execute"
  std::string title;  // for people and models
  std::string why;    // reason of its existence
  std::string tool_type;
  ToolRules rules;  // apply to each call
  ToolRetry retry;
  std::vector<ToolArgument> arguments;
  base::json::object request;  // the template
};

class ToolSet {
 public:
  // Parses a document of tools. Errors name the document, the key and its line.
  static Result<ToolSet> parse(std::string_view yaml, std::string_view name);

  [[nodiscard]] const std::vector<Tool>& all() const { return tools_; }
  // kNotFound, with the likeliest other name.
  [[nodiscard]] Result<const Tool*> find(std::string_view id) const;

 private:
  std::vector<Tool> tools_;
};

// The run request of a call of `tool`. kInvalid or kTooLarge for an invalid argument, named by
// `field` ("arguments.code").
Result<base::json::object> requestOf(const Tool& tool, const base::json::object& arguments);

// The same for a program in a session: leaves out the sandbox's members. kInvalid for a tool with a
// runtime or a tier, since the session's sandbox may not fit.
Result<base::json::object> sessionRequestOf(const Tool& tool, const base::json::object& arguments);

// The form in GET /v1/capabilities: its arguments as a JSON Schema (2020-12) of an object.
base::json::object toJsonObject(const Tool& tool);

// Prefix of metadata members reserved for the service; a request may not use the prefix.
inline constexpr std::string_view kReservedMetadata = "cloister.";
// The id of the called tool.
inline constexpr std::string_view kToolMember = "cloister.tool";
// The execution being retried.
inline constexpr std::string_view kRetryMember = "cloister.retry_of";
// The number of the try, from 2; absent for the first.
inline constexpr std::string_view kAttemptMember = "cloister.attempt";
// The needed capabilities (model/capability.h), separated by ", ".
inline constexpr std::string_view kNeedsMember = "cloister.capabilities";
// The tool's risk, and the tier raised only because of the risk, above the requested tier.
inline constexpr std::string_view kRiskMember = "cloister.risk";
inline constexpr std::string_view kRiskTierMember = "cloister.risk_tier";

}  // namespace cloister::model
