// SPDX-License-Identifier: Apache-2.0
// Tools: the capability registry (policies/tools.yaml). A tool call names one and gives arguments;
// the tool says what they must be, and what run request they become. Pure.
//
// Arguments are hostile. They take the place of whole values in the request's template, never of a
// part of one, so that none can become more than the one value it is.
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
  base::json::value otherwise;       // where it is not given; null: it stays away
  std::string description;
};

// How often a call is run again, by what became of it.
struct ToolRetry {
  uint32_t startup = 0;  // its sandbox could not be started, and nothing ran
  uint32_t timeout = 0;  // its time was over
};

struct Tool {
  std::string id;     // "shell.execute"
  std::string title;  // for people and models
  std::string why;    // it is there
  std::string tool_type;
  ToolRules rules;  // that each call is held to
  ToolRetry retry;
  std::vector<ToolArgument> arguments;
  base::json::object request;  // the template
};

class ToolSet {
 public:
  // One document of tools. Errors name the document, the key and its line.
  static Result<ToolSet> parse(std::string_view yaml, std::string_view name);

  [[nodiscard]] const std::vector<Tool>& all() const { return tools_; }
  // kNotFound, with the likeliest other name.
  [[nodiscard]] Result<const Tool*> find(std::string_view id) const;

 private:
  std::vector<Tool> tools_;
};

// The run request that a call of `tool` becomes. kInvalid or kTooLarge for arguments that it does
// not take, `field` naming the one ("arguments.code").
Result<base::json::object> requestOf(const Tool& tool, const base::json::object& arguments);

// The same for a program in a session, which has its sandbox already: without what is the
// sandbox's. kInvalid for a tool that names a runtime or a tier, as it may not run in any that is
// there.
Result<base::json::object> sessionRequestOf(const Tool& tool, const base::json::object& arguments);

// What GET /v1/capabilities shows of it: its arguments as a JSON Schema (2020-12) of an object.
base::json::object toJsonObject(const Tool& tool);

// Members of an execution's metadata that begin so are the service's own; a request may not have
// them.
inline constexpr std::string_view kReservedMetadata = "cloister.";
// The id of the tool that an execution is a call of.
inline constexpr std::string_view kToolMember = "cloister.tool";
// The execution that it tries again.
inline constexpr std::string_view kRetryMember = "cloister.retry_of";
// Which try it is, from 2 on; the first does not have it.
inline constexpr std::string_view kAttemptMember = "cloister.attempt";
// What it needs (model/capability.h), its words with ", " between them.
inline constexpr std::string_view kNeedsMember = "cloister.capabilities";
// The risk of that tool, and the tier that it has for that alone: nobody asked for so high a one.
inline constexpr std::string_view kRiskMember = "cloister.risk";
inline constexpr std::string_view kRiskTierMember = "cloister.risk_tier";

}  // namespace cloister::model
