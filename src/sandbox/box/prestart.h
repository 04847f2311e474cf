// SPDX-License-Identifier: Apache-2.0
// Starting an interpreter in a sandbox ahead of its code (model/prestart.h, and kStartFifo in
// wire/runner.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/exec_spec.h"
#include "runtime/runtime.h"
#include "sandbox/box/live.h"

namespace cloister::runtime {

// The channels of a run.
inline constexpr uint32_t kCompiler = 1;
inline constexpr uint32_t kProgram = 2;

// What is known before the code is.
struct Prestart {
  std::string file;
  std::vector<std::string> argv;
  std::vector<std::string> env;
};
Prestart prestartOf(const model::ExecSpec& spec);

// Appends the kText frames of a command.
void addCommand(std::string& out, uint32_t channel, const std::vector<std::string>& argv,
                const std::vector<std::string>& env);

// The kStart frame of what it says. `flags`: wire::kStart*; `cwd`: "" for /workspace.
std::string startFrame(uint32_t channel, uint8_t flags, const std::string& cwd,
                       std::optional<model::TerminalSize> terminal);

// Appends the kFile frame of a file, whose content follows. kInvalid for an overlong path.
Result<> addFile(std::string& out, uint32_t channel, const model::FileSpec& file);

// Starts it in `live`, in which nothing has run, and returns when it was executed. A runner that
// does not say so within Live::startPatience() is killed, which is an error.
Task<Result<>> startAhead(Live& live, const Prestart& prestart);
// The same where a zygote has started it together with the sandbox.
Task<Result<>> adopt(Live& live);

}  // namespace cloister::runtime
