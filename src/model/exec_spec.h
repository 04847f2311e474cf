// SPDX-License-Identifier: Apache-2.0
// ExecSpec: everything a sandbox needs to run one request, after policy and language are resolved.
// Its encoding (wire/) is what the permit's digest binds.
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
  std::vector<Command> compile;  // none or one
  // Its code and what is compiled of it, by absolute paths: removed once it has ended, if they are
  // directly in /workspace or /tmp (a session's only).
  std::vector<std::string> temporary;
  Command run;
  std::vector<std::string> env;  // NAME=value, complete
  std::string input;             // stdin, then end of file
  bool keep_input = false;       // no end of file yet: more comes later (a session's only)
  std::string cwd;               // absolute; "" for /workspace (a session's only)
  // `run` is a request to the sandbox's own program for files (wire/files.h); a session's only.
  bool for_files = false;
  // Its standard streams are one terminal of this size, and it leads the terminal's session; all it
  // says is stdout. With `keep_input`; a session's only.
  std::optional<TerminalSize> terminal;
  ArtifactRules artifacts;
};

}  // namespace cloister::model
