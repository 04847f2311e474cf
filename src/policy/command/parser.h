// SPDX-License-Identifier: Apache-2.0
// The parser behind parseShell(): one pass over the text, recursive descent, bounded. Used by one
// call on one thread.
#pragma once

#include <optional>

#include "policy/command/syntax.h"

namespace cloister::policy {

class ShellParser {
 public:
  ShellParser(std::string_view text, Dialect dialect, const CommandBounds& bounds, Budget& budget,
              const Span* inside);
  Parsed run();

 private:
  struct Here {
    std::string end;
    bool quoted = false;
    bool tabs = false;
    Redirect* redirect = nullptr;
  };
  // A nesting level for the object's lifetime; not `ok` if too deep.
  class Level;

  // Characters. `cur` skips an escaped newline, which has no meaning outside quotes.
  char cur();
  [[nodiscard]] char raw(size_t ahead = 0) const;
  char after();  // the character behind cur()
  void take() { ++pos_; }
  bool take(char wanted);
  [[nodiscard]] bool atEnd();
  [[nodiscard]] Span spanFrom(size_t begin) const;
  void doubt(std::string_view kind, std::string what, size_t begin);
  void stop(std::string_view kind, std::string what);  // doubt, and read no further
  void bashOnly(std::string_view what, size_t begin);

  // Words (parser_word.cc).
  Word word();
  void wordPart(Word& word,
                bool operand);  // `operand`: in ${…}, where nothing is a pattern of files
  void text(Word& word, std::string_view text, bool quoted);
  void singleQuoted(Word& word);
  void doubleQuoted(Word& word);
  void dollar(Word& word, bool quoted);
  void ansiQuoted(Word& word);
  void ansiEscape(std::string& out);
  void parameter(Word& word, bool quoted);
  void parameterOperand(Part& part, bool quoted);
  void backtick(Word& word, bool quoted);
  void substitution(Word& word, Part::Kind kind, bool quoted);
  bool arithmetic(Word& word, bool quoted);
  [[nodiscard]] std::optional<size_t> arithmeticEnd(size_t begin) const;
  void hereDocuments();
  void hereText(Word& word, std::string_view text, size_t begin, const Span* whole);
  void noteBraces(Word& word, size_t begin);

  // Commands (parser.cc).
  Script list();
  void separators(bool& piped);
  void newline();
  void blanks();
  [[nodiscard]] std::string_view reserved();
  bool expect(std::string_view name);
  void command(Script& out, bool piped);
  bool compound(std::string_view name, Command& command);
  void ifCommand(Command& command);
  void loop(Command& command);
  void forCommand(Command& command);
  void caseCommand(Command& command);
  void caseBranch(Command& command);
  void test(Command& command);
  void function(Command& command, std::string name);
  void parens(Command& command);
  void simple(Command& command);
  bool definition(Command& command);
  bool assignment(Command& command, bool declaration);
  void arrayValues(Assignment& assignment);
  bool redirect(Command& command);
  void redirects(Command& command);
  void hereDocument(Command& command, size_t begin);

  const std::string_view text_;
  const Dialect dialect_;
  const CommandBounds& bounds_;
  Budget& budget_;
  const Span* const inside_;
  size_t offset_ = 0;  // of text_ in the caller's text
  size_t pos_ = 0;
  bool stopped_ = false;
  std::vector<Here> here_;
  std::vector<Doubt> doubts_;
};

static_assert(std::is_nothrow_move_constructible_v<Command>);  // Here points into a Command

class ShellParser::Level {
 public:
  explicit Level(ShellParser& parser) : parser_(parser) {
    if (++parser_.budget_.depth > parser_.bounds_.max_depth) {
      parser_.stop("too_deep", "the command is nested too deep");
    }
  }
  ~Level() { --parser_.budget_.depth; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  ShellParser& parser_;
};

}  // namespace cloister::policy
