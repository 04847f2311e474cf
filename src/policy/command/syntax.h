// SPDX-License-Identifier: Apache-2.0
// Shell text in, its syntax out: POSIX sh and bash, as far as it takes to say what would be
// executed.
//
// The text is hostile. The parser is bounded in bytes, depth and commands, takes linear time for
// each level of depth, and never fails: what it does not understand, or what different shells
// understand differently, is a Doubt, and whoever reads the syntax must not trust it then. It is
// read as a shell that is not interactive reads it: no history expansion, no aliases.
//
// Plain values; thread-safe functions. Source: POSIX.1-2017 XCU 2, and bash(1) of bash 5.2.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::policy {

// Bytes of the text that the caller gave. What was read out of a word (the text of `sh -c`) has the
// place of that word.
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
  kPosix,  // `sh`, which may be dash or bash: what they read differently is doubt
};

struct Command;
using Script = std::vector<Command>;  // in the order of the text, whatever joins them

// A piece of a word that is not just its characters.
struct Part {
  enum class Kind : uint8_t {
    kText,        // `text`, with quotes and escapes removed
    kParameter,   // $name, ${…}: `text` is the name
    kCommand,     // $(…), `…`
    kProcess,     // <(…), >(…)
    kArithmetic,  // $((…)): `text` is what stands inside
    kGlob,        // an unquoted * ? or [: `text`
    kTilde,       // ~ or ~name at a place where it is expanded
  };
  Kind kind = Kind::kText;
  bool quoted = false;   // one word, however many characters come out of it
  bool assigns = false;  // ${name:=…}
  bool differs = false;  // $'…': sh may read other characters
  std::string text = {};
  std::vector<Command> inner;  // the commands inside: of kCommand, kProcess, or an operand
};

struct Word {
  std::vector<Part> parts;
  bool quoted = false;  // any of it
  bool braces = false;  // {a,b}: becomes several words
  Span span = {};
};

struct Assignment {
  std::string name = {};
  std::vector<Word> values;  // one, or those of an array
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
  std::vector<Word> words;  // of a compound command: what it goes through (for, case)
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

// What is left of the bounds, shared by every text that one decision reads.
struct Budget {
  int depth = 0;
  size_t commands = 0;
  size_t words = 0;
};

struct Parsed {
  Script script = {};
  std::vector<Doubt> doubts = {};
};

// `inside`: where the text stands in what the caller gave; nullptr when it is that itself.
Parsed parseShell(std::string_view text, Dialect dialect, const CommandBounds& bounds,
                  Budget& budget, const Span* inside = nullptr);

// The characters that make text look like what it is not, or that shells treat each in their own
// way: control characters, malformed UTF-8, spaces and dashes beyond ASCII, invisible characters,
// full-width forms, words that mix Latin letters with look-alikes. At most a few of them.
std::vector<Doubt> suspiciousCharacters(std::string_view text, const Span* inside = nullptr);

}  // namespace cloister::policy
