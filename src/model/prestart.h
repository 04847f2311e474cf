// SPDX-License-Identifier: Apache-2.0
// Prestart: an interpreter that is started before it is known what it will run. It waits where it
// opens its code, which is the only thing it lacks; so programs that differ in nothing but their
// code may use the same one, and their prestartKey() is the same.
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
