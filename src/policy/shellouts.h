// SPDX-License-Identifier: Apache-2.0
// The commands that code of a language runs by itself, as far as its text tells: calls such as
// os.system("…") or spawn("…", […]) whose arguments are written out. A name that is put together
// when the code runs is not seen: the score is a heuristic, and the sandbox is the guard. Pure.
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
