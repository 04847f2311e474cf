// SPDX-License-Identifier: Apache-2.0
// What a command would execute, as far as its text tells: the programs with their arguments,
// through wrappers, shells in shells and substitutions; and findings, where the text does not tell.
//
// The rule that holds all of it: what is run is either in `executions`, or a finding of weight
// kDoubt or kProject says that something else may be. What is in the environment and in files is
// not seen: a sandbox's own environment and image are the caller's to judge.
//
// Pure, but for the names of the image that are told; thread-safe.
#pragma once

#include <optional>

#include "policy/command/image_names.h"
#include "policy/command/syntax.h"

namespace cloister::policy {

// A word as it will be when the command runs.
struct Value {
  std::string text = {};  // all of it, or its known beginning
  bool known = true;
  bool many = false;    // it becomes any number of words
  bool glob = false;    // a pattern of names, or braces: each word begins with `text`
  bool number = false;  // digits, whichever
  Span span = {};
};

// Whether options may be among the words that it becomes. A pattern's names are taken for names.
inline bool mayHideOptions(const Value& word) {
  return !word.known && !word.glob && !word.number &&
         (word.many || word.text.empty() || word.text == "-");
}

struct Execution {
  std::vector<Value> argv = {};
  std::string program = {};            // the last part of the path of what is run
  std::string path = {};               // as written, when it has a slash
  std::vector<std::string> real = {};  // the programs of the image that it leads to, if it does
  std::string via = {};                // the program that runs it; "" for the shell of the text
  bool trusted = false;                // found by its bare name, or in a directory of the system
  bool wrapper = false;                // nothing but what it runs matters
  bool moved = false;                  // relative names may start anywhere
  bool unknown = false;                // the table does not know the program
  bool project = false;                // it runs code of the project
  Span span = {};
};

struct Finding {
  enum class Weight : uint8_t {
    kNote,     // for the reader
    kProject,  // code of the project runs, which is not read here
    kDoubt,    // something may run that is not in `executions`
  };
  std::string kind = {};
  std::string what = {};
  Span span = {};
  Weight weight = Weight::kDoubt;
};

struct Effects {
  std::vector<Execution> executions = {};
  std::vector<Finding> findings = {};
  std::vector<Value> writes = {};    // files that redirections, scripts and variables name to write
  std::vector<Value> connects = {};  // /dev/tcp/… and /dev/udp/… of redirections
  std::vector<Value> assigned = {};  // what variables are given
  // Where relative names may begin: first where the command itself does, then wherever it goes.
  std::vector<std::string> directories = {};
  bool anywhere = false;  // it goes where the text does not tell
};

// `image`: none, and each name is what it says. `directory`: where it begins, absolute.
inline constexpr std::string_view kWorkspace = "/workspace";
Effects effectsOf(std::string_view command, const CommandBounds& bounds,
                  const ImageNames* image = nullptr, std::string_view directory = kWorkspace);
Effects effectsOfArgv(const std::vector<std::string>& argv, const CommandBounds& bounds,
                      const ImageNames* image = nullptr, std::string_view directory = kWorkspace);

// `//`, `/./` and `/x/..` taken out of a path, without looking at any file.
std::string plainPath(std::string_view path);

}  // namespace cloister::policy
