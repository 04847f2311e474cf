// SPDX-License-Identifier: Apache-2.0
// Shell text in, its syntax out: POSIX sh and bash, as far as needed to find the executed programs.
//
// The text is hostile. The parser is bounded in bytes, depth and commands, takes linear time for
// each level of depth, and never fails. Text that the parser does not know, or that shells
// interpret differently, is a Doubt, and callers must not trust the syntax then. The text is read
// as by a non-interactive shell: no history expansion, no aliases.
//
// Plain values; thread-safe functions. Source: POSIX.1-2017 XCU 2, and bash(1) of bash 5.2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::policy {

// A range of bytes of the caller's text. Text read out of a word (the text of `sh -c`) has the
// range of the word.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Doubt {
  std::string kind = {};  // a short name for the machine: "unterminated", "control_character" ...
  std::string what = {};  // for the reader
  Span span = {};
};

enum class Dialect : uint8_t {
  kBash,
  kPosix,  // `sh`, either dash or bash: differences between the two are doubts
};

struct Command;
using Script = std::vector<Command>;  // in the order of the text, whatever the connectors

// A piece of a word other than plain characters.
struct Part {
  enum class Kind : uint8_t {
    kText,        // `text`, with quotes and escapes removed
    kParameter,   // $name, ${…}: `text` is the name
    kCommand,     // $(…), `…`
    kProcess,     // <(…), >(…)
    kArithmetic,  // $((…)): `text` is the expression
    kGlob,        // an unquoted * ? or [: `text`
    kTilde,       // ~ or ~name at an expanding position
  };
  Kind kind = Kind::kText;
  bool quoted = false;   // expands to a single word
  bool assigns = false;  // ${name:=…}
  bool differs = false;  // $'…': sh may read other characters
  std::string text = {};
  std::vector<Command> inner;  // the commands inside: of kCommand, kProcess, or an operand
};

struct Word {
  std::vector<Part> parts;
  bool quoted = false;  // whether any part is
  bool braces = false;  // {a,b}: becomes several words
  Span span = {};
};

struct Assignment {
  std::string name = {};
  std::vector<Word> values;  // a single value, or an array's
  bool array = false;
  Span span = {};
};

struct Redirect {
  enum class Kind : uint8_t { kRead, kWrite, kDuplicate, kHere };
  Kind kind = Kind::kRead;
  Word target;  // the text, for kHere
  Span span = {};
};

struct Command {
  enum class Kind : uint8_t {
    kSimple,
    kCompound,    // ( ), { }, if, while, for, case: whatever may run is in `bodies`
    kFunction,    // `name`, defined as `bodies`
    kArithmetic,  // (( )): `text`
    kTest,        // [[ ]]: `words`
  };
  Kind kind = Kind::kSimple;
  std::vector<Assignment> assignments = {};
  std::vector<Word> words;  // of a compound command: its list of values (for, case)
  std::vector<Redirect> redirects = {};
  std::vector<Script> bodies = {};
  std::string name = {};  // of a function, or the variable of `for`
  std::string text = {};
  bool piped = false;  // its standard input is another command's output
  bool timed = false;  // behind `time`, a word of bash and a program to other shells
  Span span = {};
};

// How much is read at most; `bounds` of policies/levels.yaml.
struct CommandBounds {
  size_t max_bytes = size_t{64} << 10;
  int max_depth = 100;  // of words, lists and commands in each other; some four for each nesting
  size_t max_commands = 1000;  // simple commands in all
  size_t max_words = 20'000;
};

// The remaining bounds, shared by all texts of a decision.
struct Budget {
  int depth = 0;
  size_t commands = 0;
  size_t words = 0;
};

struct Parsed {
  Script script = {};
  std::vector<Doubt> doubts = {};
};

// `inside`: range of the text in the caller's text; nullptr for the caller's text itself.
Parsed parseShell(std::string_view text, Dialect dialect, const CommandBounds& bounds,
                  Budget& budget, const Span* inside = nullptr);

// Characters that disguise text, or that shells interpret differently: control characters,
// malformed UTF-8, spaces and dashes beyond ASCII, invisible characters, full-width forms, words
// that mix Latin letters with look-alikes. Returns at most a few.
std::vector<Doubt> suspiciousCharacters(std::string_view text, const Span* inside = nullptr);

}  // namespace cloister::policy
