// SPDX-License-Identifier: Apache-2.0
// Words: quotes, expansions, substitutions, the text of here-documents.
#include <algorithm>

#include "policy/command/parser.h"

namespace cloister::policy {
namespace {

constexpr std::string_view kEndsWord = " \t\n;&|<>()";

bool nameStart(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool nameChar(char c) {
  return nameStart(c) || (c >= '0' && c <= '9');
}

int hexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void ShellParser::text(Word& word, std::string_view text, bool quoted) {
  if (word.parts.empty() || word.parts.back().kind != Part::Kind::kText ||
      word.parts.back().quoted != quoted || word.parts.back().differs) {
    word.parts.push_back({});
    word.parts.back().quoted = quoted;
  }
  word.parts.back().text += text;
}

Word ShellParser::word() {
  Level level(*this);
  Word word;
  cur();
  const size_t begin = pos_;
  if (++budget_.words > bounds_.max_words) stop("too_long", "the command has too many words");
  while (!atEnd()) {
    const char c = cur();
    const bool process = (c == '<' || c == '>') && after() == '(';
    if (kEndsWord.contains(c) && !process) {
      if (c == '(' && pos_ > begin && std::string_view("?*+@!").contains(text_[pos_ - 1])) {
        stop("pattern", "an extended pattern");
      }
      break;
    }
    wordPart(word, false);
  }
  word.span = spanFrom(begin);
  if (word.parts.size() == 1 && word.parts[0].kind == Part::Kind::kGlob &&
      word.parts[0].text == "[") {
    word.parts[0].kind = Part::Kind::kText;  // the command with the name
  }
  noteBraces(word, begin);
  if (!here_.empty() && pos_ <= text_.size() && text_.substr(begin, pos_ - begin).contains('\n')) {
    doubt("here_document", "a word goes over the line where a here-document begins", begin);
  }
  return word;
}

// Expands {a,b} and {1..9} even where bash does not, at the price of a false alarm.
void ShellParser::noteBraces(Word& word, size_t begin) {
  bool open = false;
  bool parted = false;
  for (const Part& part : word.parts) {
    if (part.quoted || part.kind != Part::Kind::kText) continue;
    open = open || part.text.contains('{');
    parted = parted || part.text.contains(',') || part.text.contains("..");
  }
  word.braces = open && parted;
  if (word.braces) bashOnly("brace expansion", begin);
}

void ShellParser::wordPart(Word& word, bool operand) {
  const char c = cur();
  switch (c) {
    case '\\':
      take();
      if (pos_ >= text_.size()) return stop("unterminated", "a backslash at the end");
      word.quoted = true;
      text(word, text_.substr(pos_, 1), true);
      return take();
    case '\'':
      return singleQuoted(word);
    case '"':
      take();
      return doubleQuoted(word);
    case '$':
      return dollar(word, false);
    case '`':
      return backtick(word, false);
    case '<':
    case '>':
      bashOnly("process substitution", pos_);
      take();
      return substitution(word, Part::Kind::kProcess, false);
    case '*':
    case '?':
    case '[':
      if (!operand) {
        word.parts.push_back({.kind = Part::Kind::kGlob, .text = std::string(1, c), .inner = {}});
        return take();
      }
      break;
    case '~': {
      const bool start =
          word.parts.empty() || (pos_ > 0 && (text_[pos_ - 1] == '=' || text_[pos_ - 1] == ':'));
      if (start) {
        word.parts.push_back({.kind = Part::Kind::kTilde, .text = "~", .inner = {}});
        return take();
      }
      break;
    }
    default:
      break;
  }
  text(word, text_.substr(pos_, 1), false);
  take();
}

void ShellParser::singleQuoted(Word& word) {
  take();
  const size_t end = text_.find('\'', pos_);
  word.quoted = true;
  if (end == std::string_view::npos) return stop("unterminated", "a quote that is not closed");
  text(word, text_.substr(pos_, end - pos_), true);
  pos_ = end + 1;
}

void ShellParser::doubleQuoted(Word& word) {
  Level level(*this);
  word.quoted = true;
  text(word, "", true);
  while (!stopped_) {
    if (atEnd()) return stop("unterminated", "a quote that is not closed");
    const char c = cur();
    if (c == '"') return take();
    if (c == '$') {
      dollar(word, true);
    } else if (c == '`') {
      backtick(word, true);
    } else {
      if (c == '\\' && std::string_view("$`\"\\").contains(raw(1))) take();
      if (pos_ >= text_.size()) return stop("unterminated", "a quote that is not closed");
      text(word, text_.substr(pos_, 1), true);
      take();
    }
  }
}

// pos_ is at the `$`.
void ShellParser::dollar(Word& word, bool quoted) {
  const size_t begin = pos_;
  const char next = after();
  if (next == '(') {
    take();
    cur();
    if (after() == '(' && arithmetic(word, quoted)) return;
    return substitution(word, Part::Kind::kCommand, quoted);
  }
  if (next == '{') {
    take();
    cur();
    take();
    return parameter(word, quoted);
  }
  if (next == '[') {
    return stop("old_syntax", "$[…], an old form of arithmetic");
  }
  if (!quoted && next == '\'') {
    bashOnly("$'…'", begin);
    take();
    cur();
    return ansiQuoted(word);
  }
  if (!quoted && next == '"') {
    bashOnly("$\"…\"", begin);
    take();
    cur();
    take();
    return doubleQuoted(word);
  }
  take();
  if (!nameChar(next) && !std::string_view("@*#?-$!").contains(next)) {
    return text(word, "$", true);
  }
  Part part{.kind = Part::Kind::kParameter, .quoted = quoted, .text = {}, .inner = {}};
  cur();
  do {
    part.text += raw();
    take();
  } while (nameStart(part.text[0]) && !atEnd() && nameChar(cur()));
  word.parts.push_back(std::move(part));
}

void ShellParser::ansiQuoted(Word& word) {
  const size_t begin = pos_;
  take();
  Part part{.quoted = true, .differs = true, .text = {}, .inner = {}};
  while (pos_ < text_.size() && raw() != '\'') {
    if (raw() != '\\') {
      part.text += raw();
      take();
      continue;
    }
    take();
    ansiEscape(part.text);
  }
  word.quoted = true;
  if (pos_ >= text_.size()) return stop("unterminated", "a quote that is not closed");
  take();
  if (part.text.contains('\0')) doubt("escape", "a quoted text with a NUL in it", begin);
  word.parts.push_back(std::move(part));
}

void ShellParser::ansiEscape(std::string& out) {
  constexpr std::string_view kNames = "abeEfnrtv\\'\"?";
  constexpr std::string_view kBytes = "\a\b\033\033\f\n\r\t\v\\'\"?";
  if (pos_ >= text_.size()) return;
  const char c = raw();
  take();
  if (const size_t at = kNames.find(c); at != std::string_view::npos) {
    out += kBytes[at];
    return;
  }
  unsigned value = 0;
  int digits = 0;
  if (c >= '0' && c <= '7') {
    value = static_cast<unsigned>(c - '0');
    for (digits = 1; digits < 3 && raw() >= '0' && raw() <= '7'; ++digits, take()) {
      value = (value * 8) + static_cast<unsigned>(raw() - '0');
    }
  } else if (c == 'x') {
    for (; digits < 2 && hexValue(raw()) >= 0; ++digits, take()) {
      value = (value * 16) + static_cast<unsigned>(hexValue(raw()));
    }
  }
  if (digits == 0) return doubt("escape", "an escape in $'…' that is not read here", pos_ - 1);
  out += static_cast<char>(value);
}

// Behind `${`.
void ShellParser::parameter(Word& word, bool quoted) {
  Level level(*this);
  const size_t begin = pos_;
  Part part{.kind = Part::Kind::kParameter, .quoted = quoted, .text = {}, .inner = {}};
  char c = cur();
  if (c == '!') {
    doubt("indirect", "${!…} reads a variable whose name is not written here", begin);
    take();
  } else if (c == '#' && after() != '}') {
    take();
  }
  c = cur();
  if (!nameChar(c) && !std::string_view("@*#?-$!").contains(c)) {
    return stop("expansion", "an expansion that is not understood");
  }
  do {
    part.text += raw();
    take();
  } while (nameChar(part.text[0]) && !atEnd() && nameChar(cur()));
  if (cur() == '[') {
    take();
    const char index = cur();
    take();
    if (!take(']') || !(index == '@' || index == '*' || (index >= '0' && index <= '9'))) {
      return stop("subscript", "a subscript, which may run commands");
    }
  }
  c = cur();
  if (c == '@' || (c == ':' && !std::string_view("-=?+").contains(after()))) {
    const size_t close = text_.find('}', pos_);
    const auto inner = text_.substr(pos_, close == std::string_view::npos ? close : close - pos_);
    const bool plain =
        c == ':' && inner.find_first_not_of(": 0123456789-") == std::string_view::npos;
    if (!plain) return stop("expansion", "an expansion that may run commands");
  }
  part.assigns = c == '=' || (c == ':' && after() == '=');
  parameterOperand(part, quoted);
  word.parts.push_back(std::move(part));
}

// Reads the operand between operator and brace, for its commands.
void ShellParser::parameterOperand(Part& part, bool quoted) {
  Word operand;
  while (!stopped_) {
    if (atEnd()) return stop("unterminated", "an expansion that is not closed");
    const char c = cur();
    if (c == '}') {
      take();
      break;
    }
    if (c == '\'' && quoted) return stop("quotes", "a quote whose meaning differs between shells");
    if (c == '"' && quoted) {
      take();
      doubleQuoted(operand);
    } else if (c == '<' || c == '>') {
      if (after() == '(') return stop("expansion", "a process substitution in an expansion");
      take();
    } else if (quoted && c == '$') {
      dollar(operand, true);
    } else {
      wordPart(operand, true);
    }
  }
  for (Part& inner : operand.parts) {
    part.assigns = part.assigns || inner.assigns;
    std::ranges::move(inner.inner, std::back_inserter(part.inner));
    if (inner.kind == Part::Kind::kArithmetic) {
      Command command;
      command.kind = Command::Kind::kArithmetic;
      command.text = inner.text;
      part.inner.push_back(std::move(command));
    }
  }
}

// The text inside is unescaped once and read as text of its own.
void ShellParser::backtick(Word& word, bool quoted) {
  Level level(*this);
  const size_t begin = pos_;
  take();
  std::string inner;
  while (pos_ < text_.size() && raw() != '`') {
    if (raw() == '\\') {
      const char next = raw(1);
      if (std::string_view("$`\\").contains(next) || (quoted && next == '"')) take();
    }
    if (pos_ < text_.size()) inner += raw();
    take();
  }
  if (pos_ >= text_.size()) return stop("unterminated", "a backtick that is not closed");
  take();
  const Span span = spanFrom(begin);
  Parsed parsed = parseShell(inner, dialect_, bounds_, budget_, &span);
  std::ranges::move(parsed.doubts, std::back_inserter(doubts_));
  word.parts.push_back({.kind = Part::Kind::kCommand,
                        .quoted = quoted,
                        .text = {},
                        .inner = std::move(parsed.script)});
}

// pos_ is at the `(`.
void ShellParser::substitution(Word& word, Part::Kind kind, bool quoted) {
  Level level(*this);
  cur();
  const size_t begin = pos_;
  take();
  if (!here_.empty()) doubt("here_document", "a substitution where a here-document begins", begin);
  const size_t waiting = here_.size();
  Part part{.kind = kind, .quoted = quoted, .text = {}, .inner = {}};
  part.inner = list();
  if (stopped_) return;
  if (!take(')')) return stop("unterminated", "a substitution that is not closed");
  if (here_.size() != waiting) doubt("here_document", "a here-document without its text", begin);
  word.parts.push_back(std::move(part));
}

// The position of the `))` that closes the text beginning at `begin`, if arithmetic and not a
// subshell in a substitution.
std::optional<size_t> ShellParser::arithmeticEnd(size_t begin) const {
  int depth = 0;
  for (size_t at = begin; at < text_.size(); ++at) {
    const char c = text_[at];
    if (c == '\\') {
      ++at;
    } else if (c == '\'' || c == '"' || c == '`') {
      return {};
    } else if (c == '(') {
      ++depth;
    } else if (c == ')') {
      if (depth-- > 0) continue;
      if (at + 1 < text_.size() && text_[at + 1] == ')') return at;
      return {};
    }
  }
  return {};
}

// pos_ is at the first `(`. False: a subshell, or read as a subshell.
bool ShellParser::arithmetic(Word& word, bool quoted) {
  Level level(*this);
  cur();
  if (raw(1) != '(') {
    stop("syntax", "(( over two lines");
    return false;
  }
  const auto end = arithmeticEnd(pos_ + 2);
  if (!end) {
    doubt("arithmetic", "$(( that may be arithmetic or a subshell", pos_);
    return false;
  }
  Part part{.kind = Part::Kind::kArithmetic, .quoted = quoted, .text = {}, .inner = {}};
  part.text = text_.substr(pos_ + 2, *end - pos_ - 2);
  pos_ = *end + 2;
  word.parts.push_back(std::move(part));
  return true;
}

// A here-document's text with expansions: only its commands matter. `whole`: the range that stands
// for each place in a text other than the caller's; nullptr for text as it is from `begin` on.
void ShellParser::hereText(Word& word, std::string_view body, size_t begin, const Span* whole) {
  ShellParser inner(body, dialect_, bounds_, budget_, whole != nullptr ? whole : inside_);
  inner.offset_ = offset_ + begin;
  while (!inner.atEnd()) {
    const char c = inner.cur();
    if (c == '$') {
      inner.dollar(word, true);
    } else if (c == '`') {
      inner.backtick(word, true);
    } else {
      if (c == '\\' && std::string_view("$`\\").contains(inner.raw(1))) inner.take();
      if (inner.pos_ < body.size()) text(word, body.substr(inner.pos_, 1), true);
      inner.take();
    }
  }
  std::ranges::move(inner.doubts_, std::back_inserter(doubts_));
  stopped_ = stopped_ || inner.stopped_;
}

// After a newline: reads the texts announced on the line.
void ShellParser::hereDocuments() {
  std::vector<Here> waiting;
  waiting.swap(here_);
  for (Here& here : waiting) {
    const size_t begin = pos_;
    std::string body;
    bool closed = false;
    while (pos_ < text_.size() && !closed) {
      size_t end = std::min(text_.find('\n', pos_), text_.size());
      std::string_view line = text_.substr(pos_, end - pos_);
      // An escaped newline joins lines before the end is looked for, where nothing is quoted.
      if (!here.quoted && line.ends_with('\\')) {
        doubt("here_document", "a here-document whose lines are joined", pos_);
      }
      if (here.tabs) line.remove_prefix(std::min(line.find_first_not_of('\t'), line.size()));
      pos_ = std::min(end + 1, text_.size());
      closed = line == here.end;
      if (!closed) (body += line) += '\n';
    }
    if (!closed) doubt("unterminated", "a here-document without its end", begin);
    Word& word = here.redirect->target;
    word.quoted = true;
    word.parts.clear();
    if (here.quoted) {
      text(word, body, true);
    } else {
      // Without its tabs, or with the newline that an open end lacks, the text is another.
      const Span whole = spanFrom(begin);
      hereText(word, body, begin, here.tabs || !closed ? &whole : nullptr);
    }
    word.span = spanFrom(begin);
  }
}

}  // namespace cloister::policy
