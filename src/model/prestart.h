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

// SHA-256, in hex, of all that is known beforehand of a program that has one file, no compiler and
// no input: its command, environment and file's name. "" for any other.
std::string prestartKey(const ExecSpec& spec);

// True if `language` may be started ahead of `code`.
bool mayPrestart(const Language& language, std::string_view code);

}  // namespace cloister::model
