// SPDX-License-Identifier: Apache-2.0
// Prestart: an interpreter that is started before its program is known. The interpreter waits at
// the opening of its code, and lacks nothing else. So programs that differ only in their code may
// use the same interpreter, and have the same prestartKey().
#pragma once

#include <string>
#include <string_view>

#include "model/exec_spec.h"
#include "model/language.h"

namespace cloister::model {

// SHA-256, in hex, of all facts known beforehand about a program with a single file, no compiler
// and no input: its command, environment and file name. "" for any other program.
std::string prestartKey(const ExecSpec& spec);

// True if `language` may be started ahead of `code`.
bool mayPrestart(const Language& language, std::string_view code);

}  // namespace cloister::model
