// SPDX-License-Identifier: Apache-2.0
// The effects of a command, as far as its text shows: the programs with their arguments, through
// wrappers, nested shells and substitutions; and findings for unclear text.
//
// The invariant: an executed program is either in `executions`, or a finding of weight kDoubt or
// kProject reports the possibility. The environment and files are not read: the caller judges the
// sandbox's own environment and image.
//
// Pure, apart from the image's reported names; thread-safe.
#pragma once

#include <optional>

#include "policy/command/image_names.h"
#include "policy/command/syntax.h"

namespace cloister::policy {

// A word's value when the command runs.
struct Value {
  std::string text = {};  // the full text, or its known beginning
  bool known = true;
  bool many = false;    // expands to any number of words
  bool glob = false;    // a pattern of names, or braces: each word begins with `text`
  bool number = false;  // digits, whichever
  Span span = {};
};

// Whether the word may expand to options. Names matched by a pattern count as names.
inline bool mayHideOptions(const Value& word) {
  return !word.known && !word.glob && !word.number &&
         (word.many || word.text.empty() || word.text == "-");
}

struct Execution {
  std::vector<Value> argv = {};
  std::string program = {};            // the last part of the executed path
  std::string path = {};               // as written, if including a slash
  std::vector<std::string> real = {};  // the programs of the image behind a link, if any
  std::string via = {};                // the program that runs this program; "" for the text's
                                       // shell
  bool trusted = false;                // found by its bare name, or in a directory of the system
  bool wrapper = false;                // only the executed program matters
  bool moved = false;                  // relative names may start anywhere
  bool unknown = false;                // the table does not know the program
  bool project = false;                // runs code of the project
  Span span = {};
};

struct Finding {
  enum class Weight : uint8_t {
    kNote,     // for the reader
    kProject,  // runs code of the project, not read here
    kDoubt,    // may run programs missing in `executions`
  };
  std::string kind = {};
  std::string what = {};
  Span span = {};
  Weight weight = Weight::kDoubt;
};

struct Effects {
  std::vector<Execution> executions = {};
  std::vector<Finding> findings = {};
  std::vector<Value> writes = {};    // files written by redirections, scripts and variables
  std::vector<Value> connects = {};  // /dev/tcp/… and /dev/udp/… of redirections
  std::vector<Value> assigned = {};  // values assigned to variables
  // Directories in which relative names may begin: first the command's own, then all later ones.
  std::vector<std::string> directories = {};
  bool anywhere = false;  // changes to a directory unknown from the text
};

// `image`: without an image, each name is the program itself. `directory`: initial directory,
// absolute.
inline constexpr std::string_view kWorkspace = "/workspace";
Effects effectsOf(std::string_view command, const CommandBounds& bounds,
                  const ImageNames* image = nullptr, std::string_view directory = kWorkspace);
Effects effectsOfArgv(const std::vector<std::string>& argv, const CommandBounds& bounds,
                      const ImageNames* image = nullptr, std::string_view directory = kWorkspace);

// `//`, `/./` and `/x/..` taken out of a path, without looking at any file.
std::string plainPath(std::string_view path);

}  // namespace cloister::policy
