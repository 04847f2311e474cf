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

// The parts of a program known before its code.
struct Prestart {
  std::string file;
  std::vector<std::string> argv;
  std::vector<std::string> env;
};
Prestart prestartOf(const model::ExecSpec& spec);

// Appends the kText frames of a command.
void addCommand(std::string& out, uint32_t channel, const std::vector<std::string>& argv,
                const std::vector<std::string>& env);

// The kStart frame for these values. `flags`: wire::kStart*; `cwd`: "" for /workspace.
std::string startFrame(uint32_t channel, uint8_t flags, const std::string& cwd,
                       std::optional<model::TerminalSize> terminal);

// Appends the kFile frame of a file, whose content follows. kInvalid for an overlong path.
Result<> addFile(std::string& out, uint32_t channel, const model::FileSpec& file);

// Starts the program in the unused `live`, and returns after execve(2). A runner that sends no
// confirmation within Live::startPatience() is killed, and startAhead() fails.
Task<Result<>> startAhead(Live& live, const Prestart& prestart);
// Like startAhead(), for a program that a zygote started together with the sandbox.
Task<Result<>> adopt(Live& live);

}  // namespace cloister::runtime
