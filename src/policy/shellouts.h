// SPDX-License-Identifier: Apache-2.0
// The commands that code of a language runs by itself, as far as its text shows: calls such as
// os.system("…") or spawn("…", […]) with literal arguments. A name that the running code composes
// is not seen: the score is a heuristic, and the sandbox is the security boundary. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cloister::policy {

// Text for a shell, or a program with its arguments.
using ShellOut = std::variant<std::string, std::vector<std::string>>;

// Examines at most the first 256 KiB of `code`, and at most 64 calls. `language`: its own name.
std::vector<ShellOut> shellOutsOf(std::string_view language, std::string_view code);

}  // namespace cloister::policy
