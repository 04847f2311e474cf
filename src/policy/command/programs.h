// SPDX-License-Identifier: Apache-2.0
// The known programs: programs that run other commands, and the responsible options. The rows are
// in policies/programs.yaml (tables.h). A program without a row is taken literally, and never
// counts as harmless (Kind::kUnknown). Immutable; thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::policy {

struct Program {
  enum class Kind : uint8_t {
    kUnknown,
    kPlain,        // runs none of its arguments, except values of options in `executes`
    kPrefix,       // options, `operands` words, then a command with its arguments
    kOpaque,       // runs code unreadable for the filter: doubt, except with only an option of
                   // `options`
    kProject,      // runs code of the project: its build files, its packages, its tests
    kShell,        // sh -c TEXT
    kInterpreter,  // `executes`: options with code; `options`: the others
    kEnv,
    kXargs,
    kFind,
    kGit,
    kSed,
    kAwk,
    kSsh,
    kSu,
    kScript,
    kWatch,
    kRunner,  // the word `run` or `exec`, then a command
    kNode,    // npm, yarn ...: a command behind exec, code of the project otherwise
    kMake,
    kCommand,  // of here on: builtins of the shell
    kExec,
    kEval,
    kSource,
    kTrap,
    kCd,
    kSet,
    kShopt,
    kDeclare,
    kArithmetic,  // let
    kAssigns,     // read, getopts ...: its operands are names of variables
    kWait,        // wait -p NAME
    kTest,
  };
  Kind kind = Kind::kUnknown;
  std::string_view group = {};    // name for `builtin:` of a rule
  std::string_view options = {};  // "-n: --adjustment= -v": known options, `:` and `=` with a value
  std::string_view executes = {};  // options that run their value, or read code from their value
  int operands = 0;
  bool at_files = false;       // a word @FILE names a file with more options
  bool bundle = false;         // the first word may be letters of options without a dash
  bool format = false;         // the first word is a format, and %n in it names a variable
  bool modules = false;        // -m names a module, and -v does not print the version
  bool number_option = false;  // a number with a dash is an option
  bool past_dashes = false;    // options behind -- count as well
  bool plus_commands = false;  // a word that begins with + is a command
  bool rust_flags = false;     // linker= and codegen-backend= name programs, also behind --
  bool shell_text = false;     // -c behind the operands is followed by text for a shell
};

// By the last part of the path, with and without a version behind it (python3.11).
const Program& programNamed(std::string_view name);
// The names of a group; none for an unknown group.
std::vector<std::string> programsOf(std::string_view group);

// The effect of a variable on commands that inherit the variable.
enum class Variable : uint8_t {
  kPlain,
  kChanges,  // determines the executed program, or how the text is read
  kCommand,  // its value is run
  kCode,     // loads code from its value
  kFlags,    // options, some of which run a program or write a file
  kFile,     // a file to write, or a directory for new files
  kTrace,    // the same if an absolute path; a switch otherwise
  kNumber,   // read by the shell as arithmetic, which runs commands in subscripts
};
Variable variableNamed(std::string_view name);

// Calls f(word) for each word of a space-separated list, until f returns true.
template <class Fn>
bool anyWord(std::string_view list, Fn&& f) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (end > 0 && f(list.substr(0, end))) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// Whether `option` (in the manner of Program::options) is in the list, and takes a value.
enum class Option : uint8_t { kAbsent, kFlag, kValue };
Option findOption(std::string_view list, std::string_view option);

// Whether a word may be an option of the list: whole, bundled with other letters, or abbreviated.
bool mayBeOption(std::string_view list, std::string_view word);

}  // namespace cloister::policy
