// SPDX-License-Identifier: Apache-2.0
// ExecSpec: everything a sandbox needs to run one request, after policy and language are resolved.
// The permit's digest binds the encoding of an ExecSpec (wire/).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/run_request.h"
#include "model/terminal_size.h"

namespace cloister::model {

struct Command {
  std::vector<std::string> argv;         // argv[0] is looked up in PATH
  std::chrono::milliseconds timeout{0};  // wall time
};

struct ArtifactRules {
  std::vector<std::string> globs;  // under /workspace; empty collects nothing
  uint32_t max_files = 64;
  uint64_t max_bytes = uint64_t{64} << 20;
};

struct ExecSpec {
  std::vector<FileSpec> files;   // the code first
  std::vector<Command> compile;  // at most a single command
  // Absolute paths of its code and compiled files: removed after its end, if directly in /workspace
  // or /tmp (sessions only).
  std::vector<std::string> temporary;
  Command run;
  std::vector<std::string> env;  // NAME=value, complete
  std::string input;             // stdin, then end of file
  bool keep_input = false;       // no end of file yet: more comes later (a session's only)
  std::string cwd;               // absolute; "" for /workspace (a session's only)
  // `run` is a request to the sandbox's own program for files (wire/files.h); a session's only.
  bool for_files = false;
  // The standard streams are a single terminal of this size, and the program leads the terminal's
  // session; all output is stdout. Requires `keep_input`; sessions only.
  std::optional<TerminalSize> terminal;
  ArtifactRules artifacts;
};

}  // namespace cloister::model
