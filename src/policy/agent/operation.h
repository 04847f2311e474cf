// SPDX-License-Identifier: Apache-2.0
// Operation: one intended action of an agent, in the form of a question to the rules. Values;
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace cloister::policy {

enum class FileAccess : uint8_t { kRead, kWrite, kCreate, kDelete };

struct FileOperation {
  FileAccess access = FileAccess::kRead;
  std::string path;        // a relative path begins in /workspace
  bool recursive = false;  // includes everything beneath
};
// Either text or argv.
struct CommandOperation {
  std::optional<std::string> text;  // for bash
  std::vector<std::string> argv;
  std::string directory = {};  // initial directory, absolute; "" for /workspace
};
struct NetworkOperation {
  std::string url;
  std::string method = "GET";
};
struct GateOperation {
  std::string gate;
};
struct WorkflowOperation {
  std::string workflow;
  std::string action = "run";
};

// Needed resources; 0: unknown, or none.
struct Resources {
  uint64_t memory_bytes = 0;
  uint32_t cpu_millis = 0;  // thousandths of a processor
  uint64_t time_ms = 0;
  uint64_t disk_bytes = 0;
  uint64_t file_bytes = 0;  // of a file
  uint32_t running = 0;     // runs and sessions
};

struct Operation {
  std::variant<FileOperation, CommandOperation, NetworkOperation, GateOperation, WorkflowOperation>
      what;
  Resources wanted;
};

// A name of model::kAgentOperations.
std::string_view nameOf(const Operation& operation);
// The text compared with a temporary permission's pattern and shown in records: the plain path, the
// command, the URL, the gate, "workflow:action".
std::string targetOf(const Operation& operation);
// "/workspace/src/x" of "src/./x".
std::string absolutePath(std::string_view path);

// {type, …} (spec/openapi.yaml: AgentOperation); kInvalid names the member, within `path`.
Result<Operation> parseOperation(const base::json::object& object, const std::string& path);

}  // namespace cloister::policy
