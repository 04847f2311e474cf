// SPDX-License-Identifier: Apache-2.0
// NetworkHint: whether a program without a network looked for one, by the texts that its tools
// print. Without a door nothing is logged inside a sandbox, so the text is the only trace. The
// answer is a hint for a reader: a program may print anything. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/execution.h"

namespace cloister::orchestrator {

// The ends of a program's streams, each bounded (Recorder::kTailBytes). Many programs print their
// errors to standard output: console.log() of Node, test runners, and everything behind `2>&1`.
struct OutputTails {
  std::string_view err;
  std::string_view out;
};

// Nothing for a program that ended well, or whose output has none of the known texts.
std::optional<std::string> networkHint(const model::Execution& ended, const OutputTails& tails);

}  // namespace cloister::orchestrator
