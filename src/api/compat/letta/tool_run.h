// SPDX-License-Identifier: Apache-2.0
// Runs a tool: its source becomes a program of the service's own (languages/tools) and the source
// as a file beside it, in a fresh sandbox. The run is an execution like any other; the record, the
// audit log and quotas see it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/compat/letta/tool.h"
#include "api/rest/rest.h"

namespace cloister::api::compat::letta {

struct ToolCall {
  std::string name;   // of the function; "": the schema's
  json::object tool;  // source_code, source_type and requirements, as stored
  json::object args;
  std::map<std::string, std::string> env;
  std::string tool_id;   // "" for a source without a tool
  std::string agent_id;  // "" without an agent
  std::string project_id;
  std::string key;  // LETTA_API_KEY, where the policy grants the run the way to this service
};

struct ToolResult {
  bool success = false;
  json::value value;  // the returned value, or the error's text
  std::string text;   // the same for a model
  std::string out;
  std::string err;
  std::string execution;  // id of the run
};

// Runs the tool and waits for its end. An error of the tool is a result; an error of this function
// is a request that could not be run.
Task<Result<ToolResult>> runTool(RestParts& parts, model::Principal principal, ToolCall call);

// The JSON schema of a tool in Python, derived from the source in a sandbox by a parser. kInvalid
// has the reason of the parser.
Task<Result<json::object>> deriveSchema(RestParts& parts, model::Principal principal,
                                        std::string source);

}  // namespace cloister::api::compat::letta
