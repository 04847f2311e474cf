// SPDX-License-Identifier: Apache-2.0
// Commands: lists, pipelines, compound commands, functions, redirections.
#include "policy/command/parser.h"

#include <algorithm>

namespace cloister::policy {
namespace {

constexpr std::string_view kBlank = " \t";
constexpr size_t kMaxDoubts = 32;

bool nameChar(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool isName(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') && std::ranges::all_of(text, nameChar);
}

// The word's text if only unquoted characters.
std::string_view bare(const Word& word) {
  if (word.parts.size() != 1 || word.quoted || word.parts[0].kind != Part::Kind::kText) return {};
  return word.parts[0].text;
}

template <size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

constexpr std::string_view kDeclarations[] = {"declare", "typeset", "local", "export", "readonly"};

}  // namespace

ShellParser::ShellParser(std::string_view text, Dialect dialect, const CommandBounds& bounds,
                         Budget& budget, const Span* inside)
    : text_(text), dialect_(dialect), bounds_(bounds), budget_(budget), inside_(inside) {}

char ShellParser::cur() {
  while (pos_ + 1 < text_.size() && text_[pos_] == '\\' && text_[pos_ + 1] == '\n')
    pos_ += 2;
  return raw();
}

char ShellParser::raw(size_t ahead) const {
  return !stopped_ && pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0';
}

char ShellParser::after() {
  cur();
  const size_t before = pos_;
  ++pos_;
  const char next = cur();
  pos_ = before;
  return next;
}

bool ShellParser::take(char wanted) {
  if (atEnd() || cur() != wanted) return false;
  take();
  return true;
}

bool ShellParser::atEnd() {
  cur();
  return stopped_ || pos_ >= text_.size();
}

Span ShellParser::spanFrom(size_t begin) const {
  if (inside_ != nullptr) return *inside_;
  const size_t end = std::min(pos_, text_.size());
  return {.begin = static_cast<uint32_t>(offset_ + std::min(begin, end)),
          .end = static_cast<uint32_t>(offset_ + end)};
}

void ShellParser::doubt(std::string_view kind, std::string what, size_t begin) {
  if (doubts_.size() >= kMaxDoubts) return;
  Span span = spanFrom(begin);
  const bool empty = inside_ == nullptr && span.begin == span.end;
  if (empty && span.end < offset_ + text_.size()) ++span.end;
  doubts_.push_back({.kind = std::string(kind), .what = std::move(what), .span = span});
}

void ShellParser::stop(std::string_view kind, std::string what) {
  if (stopped_) return;
  doubt(kind, std::move(what), pos_);
  stopped_ = true;
}

void ShellParser::bashOnly(std::string_view what, size_t begin) {
  if (dialect_ == Dialect::kPosix) {
    doubt("dialect", std::string(what) + ", which not every sh reads the same", begin);
  }
}

Parsed ShellParser::run() {
  Level level(*this);
  Parsed parsed;
  if (!stopped_) parsed.script = list();
  if (!stopped_ && !atEnd()) stop("syntax", "something is closed that was not opened");
  if (!here_.empty()) doubt("unterminated", "a here-document without its text", text_.size());
  parsed.doubts = std::move(doubts_);
  return parsed;
}

void ShellParser::blanks() {
  while (!atEnd()) {
    if (kBlank.contains(cur())) {
      take();
    } else if (cur() == '#') {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else {
      return;
    }
  }
}

void ShellParser::newline() {
  take();
  if (!here_.empty()) hereDocuments();
}

// Reads separators between two commands. Accepts more than a shell would: the commands are read
// either way. Comments begin only here and after blanks, where a word would begin.
void ShellParser::separators(bool& piped) {
  while (!atEnd()) {
    blanks();
    const char c = cur();
    if (c == '\n') {
      newline();
    } else if (c == ';') {
      const char next = after();
      if (next == ';' || next == '&') return;
      take();
      piped = false;
    } else if (c == '|') {
      take();
      piped = !take('|');
      if (piped && cur() == '&') {
        bashOnly("|&", pos_);
        take();
      }
    } else if (c == '&' && after() != '>') {
      take();
      take('&');
      piped = false;
    } else {
      return;
    }
  }
}

// The unquoted word at this position, without advancing; "" if none.
std::string_view ShellParser::reserved() {
  cur();
  size_t end = pos_;
  while (end < text_.size() && !std::string_view(" \t\n;&|<>()").contains(text_[end]))
    ++end;
  if (end < text_.size() && (text_[end] == '<' || text_[end] == '>')) {
    const auto name = text_.substr(pos_, end - pos_);
    if (name != "fi" && name != "done" && name != "esac" && name != "}" && name != "]]") return {};
  }
  return text_.substr(pos_, end - pos_);
}

bool ShellParser::expect(std::string_view name) {
  if (stopped_) return false;
  bool piped = false;
  separators(piped);
  if (!atEnd() && reserved() == name) {
    pos_ += name.size();
    return true;
  }
  stop("syntax", "\"" + std::string(name) + "\" is missing");
  return false;
}

Script ShellParser::list() {
  Level level(*this);
  Script script;
  bool piped = false;
  while (!stopped_) {
    separators(piped);
    if (atEnd()) break;
    const char c = cur();
    if (c == ')' || c == ';') break;
    const std::string_view name = reserved();
    constexpr std::string_view kEnds[] = {"then", "else", "elif", "fi", "do", "done", "esac", "}"};
    if (contains(kEnds, name)) break;
    const size_t before = pos_;
    command(script, piped);
    piped = false;
    if (!stopped_ && pos_ == before) stop("syntax", "something that is not understood");
  }
  return script;
}

void ShellParser::command(Script& out, bool piped) {
  Level level(*this);
  if (++budget_.commands > bounds_.max_commands) {
    return stop("too_long", "the command has too many parts");
  }
  const size_t begin = pos_;
  Command command;
  command.piped = piped;
  std::string_view name = reserved();
  while (name == "!" || name == "time") {
    pos_ += name.size();
    blanks();
    command.timed = command.timed || name == "time";
    if (name == "time" && reserved() == "-p") pos_ += 2;
    blanks();
    if (atEnd() || std::string_view("\n;&|)").contains(cur())) return;
    name = reserved();
  }
  if (!compound(name, command)) {
    if (name == "coproc" || name == "select") return stop("syntax", "a " + std::string(name));
    simple(command);
  } else {
    redirects(command);
    blanks();
    if (!atEnd() && !std::string_view("\n;&|)").contains(cur()) &&
        command.kind != Command::Kind::kFunction) {
      stop("syntax", "a word behind a compound command");
    }
  }
  command.span = spanFrom(begin);
  out.push_back(std::move(command));
}

bool ShellParser::compound(std::string_view name, Command& command) {
  command.kind = Command::Kind::kCompound;
  if (cur() == '(') {
    parens(command);
  } else if (name == "{") {
    take();
    command.bodies.push_back(list());
    expect("}");
  } else if (name == "if") {
    pos_ += 2;
    ifCommand(command);
  } else if (name == "while" || name == "until") {
    pos_ += 5;
    command.bodies.push_back(list());
    loop(command);
  } else if (name == "for") {
    pos_ += 3;
    forCommand(command);
  } else if (name == "case") {
    pos_ += 4;
    caseCommand(command);
  } else if (name == "[[") {
    test(command);
  } else if (name == "function") {
    bashOnly("the word function", pos_);
    pos_ += name.size();
    blanks();
    const Word word = this->word();
    if (!isName(bare(word))) {
      stop("syntax", "a function's name that is not plain");
      return true;
    }
    blanks();
    if (take('(')) {
      blanks();
      if (!take(')')) stop("syntax", "a function that is not understood");
    }
    function(command, std::string(bare(word)));
  } else {
    command.kind = Command::Kind::kSimple;
    return false;
  }
  return true;
}

void ShellParser::ifCommand(Command& command) {
  while (!stopped_) {
    command.bodies.push_back(list());
    if (!expect("then")) return;
    command.bodies.push_back(list());
    const std::string_view name = atEnd() ? "" : reserved();
    if (name == "elif") {
      pos_ += 4;
      continue;
    }
    if (name == "else") {
      pos_ += 4;
      command.bodies.push_back(list());
    }
    expect("fi");
    return;
  }
}

void ShellParser::loop(Command& command) {
  if (!expect("do")) return;
  command.bodies.push_back(list());
  expect("done");
}

void ShellParser::forCommand(Command& command) {
  blanks();
  if (cur() == '(' && after() == '(') {
    bashOnly("for ((…))", pos_);
    Word word;
    if (!arithmetic(word, false)) return stop("syntax", "a loop that is not understood");
    command.text = std::move(word.parts[0].text);
    return loop(command);
  }
  const Word name = word();
  if (!isName(bare(name))) return stop("syntax", "a loop without a plain variable");
  command.name = bare(name);
  bool piped = false;
  separators(piped);
  if (reserved() == "in") {
    pos_ += 2;
    for (blanks(); !atEnd() && !std::string_view("\n;").contains(cur()); blanks()) {
      if (std::string_view("&|<>()").contains(cur()) && after() != '(') {
        return stop("syntax", "a loop that is not understood");
      }
      const size_t before = pos_;
      command.words.push_back(word());
      if (pos_ == before) return stop("syntax", "a loop that is not understood");
    }
  } else {
    Word all;
    all.parts.push_back({.kind = Part::Kind::kParameter, .text = "@", .inner = {}});
    command.words.push_back(std::move(all));
  }
  loop(command);
}

void ShellParser::caseCommand(Command& command) {
  blanks();
  command.words.push_back(word());
  if (!expect("in")) return;
  while (!stopped_) {
    bool piped = false;
    separators(piped);
    while (!atEnd() && cur() == ';')
      take();  // the end of a branch, with ;& and ;;& of bash
    if (!atEnd() && cur() == '&') take();
    separators(piped);
    if (atEnd()) return stop("unterminated", "a case that is not closed");
    if (reserved() == "esac") {
      pos_ += 4;
      return;
    }
    caseBranch(command);
  }
}

void ShellParser::caseBranch(Command& command) {
  take('(');
  while (!stopped_) {
    blanks();
    const size_t before = pos_;
    command.words.push_back(word());
    if (pos_ == before) return stop("syntax", "a pattern that is not understood");
    blanks();
    if (take('|')) continue;
    if (take(')')) break;
    return stop("syntax", "a pattern that is not understood");
  }
  if (!stopped_) command.bodies.push_back(list());
  if (!stopped_ && !atEnd() && cur() == ')') stop("syntax", "a ) that closes nothing");
}

void ShellParser::test(Command& command) {
  bashOnly("[[", pos_);
  command.kind = Command::Kind::kTest;
  pos_ += 2;
  if (atEnd() || !std::string_view(" \t\n").contains(cur())) return stop("syntax", "[[ alone");
  bool matches = false;  // the next word is a regular expression
  while (!stopped_) {
    while (!atEnd() && std::string_view(" \t\n").contains(cur()))
      take();
    if (atEnd()) return stop("unterminated", "[[ that is not closed");
    if (reserved() == "]]") {
      pos_ += 2;
      return;
    }
    if (!matches && std::string_view("()<>&|").contains(cur()) && after() != '(') {
      take();
      continue;
    }
    if (!matches && cur() == '(') {
      take();
      continue;
    }
    if (cur() == '#') return stop("syntax", "a comment in a test");
    const size_t before = pos_;
    command.words.push_back(word());
    if (matches && !atEnd() && std::string_view("()|<>&;").contains(cur())) {
      return stop("pattern", "a regular expression that should be in a variable");
    }
    if (pos_ == before) return stop("syntax", "a test that is not understood");
    matches = bare(command.words.back()) == "=~";
  }
}

void ShellParser::function(Command& command, std::string name) {
  command.kind = Command::Kind::kFunction;
  command.name = std::move(name);
  bool piped = false;
  separators(piped);
  Script body;
  const std::string_view next = atEnd() ? "" : reserved();
  constexpr std::string_view kCompound[] = {"{", "if", "while", "until", "for", "case", "[["};
  if (!contains(kCompound, next) && (atEnd() || cur() != '(')) {
    return stop("syntax", "a function without a body that is understood");
  }
  this->command(body, false);
  command.bodies.push_back(std::move(body));
}

void ShellParser::parens(Command& command) {
  if (after() == '(') {
    Word word;
    const size_t begin = pos_;
    if (arithmetic(word, false)) {
      bashOnly("((…))", begin);
      command.kind = Command::Kind::kArithmetic;
      command.text = std::move(word.parts[0].text);
      return;
    }
  }
  take();
  command.bodies.push_back(list());
  if (!stopped_ && !take(')')) stop("unterminated", "a ( that is not closed");
}

bool ShellParser::definition(Command& command) {
  if (command.words.size() != 1 || !command.assignments.empty() || !command.redirects.empty()) {
    stop("syntax", "a ( that is not understood");
    return false;
  }
  const std::string name(bare(command.words[0]));
  take();
  blanks();
  if (!take(')') || !isName(name)) {
    stop("syntax", "a function that is not understood");
    return false;
  }
  command.words.clear();
  function(command, name);
  return true;
}

void ShellParser::simple(Command& command) {
  while (!stopped_) {
    blanks();
    if (atEnd() || std::string_view("\n;|)").contains(cur())) return;
    const char c = cur();
    if (c == '&' && after() != '>') return;
    if (c == '(') {
      definition(command);
      return;
    }
    const bool declaration =
        !command.words.empty() && contains(kDeclarations, bare(command.words[0]));
    if ((command.words.empty() || declaration) && assignment(command, declaration)) continue;
    if (redirect(command)) continue;
    const size_t before = pos_;
    command.words.push_back(word());
    if (pos_ == before) return stop("syntax", "something that is not understood");
    if (!atEnd() && (cur() == '<' || cur() == '>') && text_[pos_ - 1] == '}') {
      doubt("redirection", "{name}> or what looks like it", before);
    }
  }
}

// NAME=…, NAME+=…, NAME=(…). With a subscript: doubt, since subscripts may run commands.
bool ShellParser::assignment(Command& command, bool declaration) {
  cur();
  size_t end = pos_;
  while (end < text_.size() && nameChar(text_[end]))
    ++end;
  if (!isName(text_.substr(pos_, end - pos_)) || end >= text_.size()) return false;
  if (text_[end] == '\\') {
    size_t next = end;  // a name over two lines
    while (next < text_.size() &&
           (nameChar(text_[next]) || text_[next] == '\\' || text_[next] == '\n'))
      ++next;
    if (next >= text_.size() || !std::string_view("=+[").contains(text_[next])) return false;
    stop("syntax", "a name over two lines");
    return true;
  }
  if (text_[end] == '[') {
    const size_t close = text_.find(']', end);
    if (close == std::string_view::npos || close + 1 >= text_.size()) return false;
    if (text_[close + 1] != '=' && text_[close + 1] != '+') return false;
    stop("subscript", "a subscript, which may run commands");
    return true;
  }
  const size_t begin = pos_;
  Assignment assignment;
  assignment.name = text_.substr(pos_, end - pos_);
  if (text_[end] == '+') ++end;
  if (end >= text_.size() || text_[end] != '=') return false;
  pos_ = end + 1;
  if (!atEnd() && cur() == '(') {
    bashOnly("an array", begin);
    arrayValues(assignment);
  } else {
    assignment.values.push_back(word());
  }
  assignment.span = spanFrom(begin);
  if (declaration && !assignment.array && assignment.values[0].parts.empty()) {
    assignment.values[0].span = assignment.span;
  }
  command.assignments.push_back(std::move(assignment));
  return true;
}

void ShellParser::arrayValues(Assignment& assignment) {
  take();
  assignment.array = true;
  while (!stopped_) {
    while (!atEnd() && std::string_view(" \t\n").contains(cur()))
      take();
    if (take(')')) return;
    if (atEnd()) return stop("unterminated", "an array that is not closed");
    if (cur() == '[' || cur() == '#') return stop("subscript", "an array that is not plain");
    const size_t before = pos_;
    assignment.values.push_back(word());
    if (pos_ == before) return stop("syntax", "an array that is not understood");
  }
}

Parsed parseShell(std::string_view text, Dialect dialect, const CommandBounds& bounds,
                  Budget& budget, const Span* inside) {
  if (text.size() > bounds.max_bytes) {
    Span span{.begin = 0, .end = static_cast<uint32_t>(std::min<size_t>(text.size(), UINT32_MAX))};
    return {.script = {},
            .doubts = {
                {.kind = "too_long",
                 .what = "the command has more than " + std::to_string(bounds.max_bytes) + " bytes",
                 .span = inside != nullptr ? *inside : span}}};
  }
  return ShellParser(text, dialect, bounds, budget, inside).run();
}

}  // namespace cloister::policy
