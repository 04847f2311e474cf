// SPDX-License-Identifier: Apache-2.0
// The reader behind effectsOf(): reads the syntax in the order of the text and notes the programs
// of each command. Used by one call on one thread.
#pragma once

#include <map>
#include <set>
#include <span>
#include <utility>

#include "policy/command/effects.h"
#include "policy/command/programs.h"

namespace cloister::policy {

class EffectReader {
 public:
  EffectReader(const CommandBounds& bounds, const ImageNames* image, std::string_view directory);

  // Reads a command's text, or the text of a shell within (`inside`).
  void text(std::string_view text, Dialect dialect, std::string_view via, const Span* inside);
  // Reads the words of a command run by `via`.
  void run(std::vector<Value> argv, std::string_view via);
  Effects take() { return std::move(effects_); }

 private:
  using Words = std::span<const Value>;

  // The syntax (effects.cc).
  void script(const Script& script);
  void command(const Command& command);
  void timed(const Command& command);
  void simple(const Command& command);
  // The command's input, if given in the text.
  std::optional<Value> redirects(const Command& command);
  void assignment(const Assignment& assignment);
  void assigns(std::string_view name, const Value* value, Span span);
  void assignsFile(std::string_view name, const Value* value, Span span);
  void declaresArrays(const Command& command, std::string_view declaration);
  void arithmetic(std::string_view text, Span span);
  void test(const Command& command);
  void notePlainNumbers(const Script& script, std::set<std::string>& found,
                        std::set<std::string>& others);
  void noteArrays(const Command& command);
  [[nodiscard]] bool isNumber(const Word& word) const;
  [[nodiscard]] bool listsJobs(const Script& script) const;
  void expand(const Word& word, std::vector<Value>& out);
  Value value(const Word& word);
  void part(const Part& part, Value& value);

  // Programs (run.cc).
  void judge(Words argv, Execution& execution, const Program& program);
  void wrapped(Words argv, const Program& program);
  void prefix(Words argv, const Program& program);
  void shell(Words argv);
  void shellText(const Value& text, std::string_view via, Dialect dialect);
  void interpreter(Words argv, const Program& program, Execution& execution);
  void module(Words argv, size_t at, Execution& execution);
  void plain(Words argv, const Program& program);
  void unknown(Words argv);
  void builtin(Words argv, const Program& program, Execution& execution);
  void testWords(Words argv);
  void wait(Words argv);
  void declare(Words argv);
  void assignsNames(Words argv, const Program& program);
  void setOptions(Words argv);
  void changeDirectory(Words argv);
  void goesTo(const Value& directory);
  void trap(Words argv);
  void source(Words argv, Execution& execution);
  void nested(Words argv, std::string_view via);
  // Skips options and operands; returns the position of the rest, or nullopt if not plain.
  std::optional<size_t> pastOptions(Words argv, std::string_view options, size_t at = 1);

  // Programs with rules of their own (wrappers.cc).
  void env(Words argv, const Program& program);
  void ip(Words argv);
  void xargs(Words argv, const Program& program);
  void find(Words argv);
  bool findExec(Words argv, size_t& at, const std::vector<Value>& where);
  void git(Words argv, const Program& program);
  void gitWrites(Words argv, const std::string& directory);
  void gitConfig(Words argv, size_t at);
  void gitSetting(std::string_view key, const Value& value);
  void sed(Words argv);
  void awk(Words argv);
  void ssh(Words argv, const Program& program);
  void su(Words argv);
  void scriptCommand(Words argv);
  void watch(Words argv, const Program& program);
  void runner(Words argv, const Program& program);
  void node(Words argv, const Program& program);
  void make(Words argv);

  void doubt(std::string_view kind, std::string what, Span span);
  void note(std::string_view kind, std::string what, Span span, Finding::Weight weight);
  void projectCode(std::string what, Span span, Execution* execution = nullptr);

  const CommandBounds& bounds_;
  const ImageNames* image_;
  Budget budget_;
  Effects effects_;
  Dialect dialect_ = Dialect::kBash;
  std::string via_;
  std::set<std::string> numbers_;    // variables assigned only numbers
  std::set<std::string> arrays_;     // possible arrays
  std::set<std::string> functions_;  // of the text
  const Value* input_ = nullptr;     // the here-document read by the command
  bool moved_ = false;
  bool script_file_ = false;  // the shell just read was given a file
  int depth_ = 0;
};

// Whether a sed script only edits text; false if not understood.
bool plainSed(std::string_view script);
// Whether an awk program runs no commands; false if not understood.
bool plainAwk(std::string_view program);
// The files written by the program: as written, or "" for a file name that is not plain.
std::vector<std::string> awkFiles(std::string_view program);

}  // namespace cloister::policy
