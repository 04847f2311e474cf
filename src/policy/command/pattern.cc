// SPDX-License-Identifier: Apache-2.0
#include "policy/command/pattern.h"

#include <algorithm>
#include <array>
#include <span>

#include <re2/re2.h>

#include "base/glob.h"
#include "policy/command/programs.h"

namespace cloister::policy {

using base::globMatches;

namespace {

constexpr size_t kMaxPattern = 512;
constexpr int64_t kMaxRegexMemory = int64_t{1} << 20;

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    if (end > 0) words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// The short form of a long option of the removing and copying programs, which may be abbreviated;
// also for -R. 0 for others.
char letterOf(std::string_view option) {
  constexpr std::pair<std::string_view, char> kLong[] = {
      {"--recursive", 'r'}, {"--force", 'f'}, {"--no-preserve-root", 'r'}};
  for (const auto& [name, letter] : kLong) {
    if (option.size() > 2 && name.starts_with(option)) return letter;
  }
  return 0;
}

// Paths writable for programs: naming such a path from the root is the same as from the workspace.
bool isOwnPlace(std::string_view path) {
  constexpr std::array<std::string_view, 3> kOwnPlaces = {"/workspace/", "/home/user/", "/tmp/"};
  return std::ranges::any_of(kOwnPlaces, [&](std::string_view own) {
    return path.starts_with(own) && path.size() > own.size();
  });
}

// Compares a command's words with a pattern's.
class Forbidden {
 public:
  Forbidden(const std::vector<std::string>& words, const Execution& execution)
      : words_(words), execution_(execution) {}

  Match run() {
    for (size_t i = 1; i < words_.size(); ++i) {
      const std::string& word = words_[i];
      if (word == "*") continue;
      if (word.size() > 1 && word[0] == '-' && word[1] != '-') letters_ += word.substr(1);
    }
    look();
    for (size_t i = 1; i < words_.size(); ++i) {
      const std::string& word = words_[i];
      if (word == "*") continue;
      const bool letters = word.size() > 1 && word[0] == '-' && word[1] != '-';
      const Match match = letters ? options(word) : operand(word);
      if (match == Match::kNo) return Match::kNo;
      result_ = std::min(result_, match);
    }
    return result_;
  }

 private:
  void look() {
    bool operands = false;  // behind --
    for (const Value& word : std::span(execution_.argv).subspan(1)) {
      if (!word.known && (word.text.empty() || word.many)) {
        any_ = any_ || (word.many && !word.glob);
        if (word.glob && (word.text.empty() || word.text[0] == '-')) free_ += 1;
        if (!word.glob) free_ += 1;
      }
      if (!word.known) ++unknown_;
      if (word.known && word.text == "--") {
        operands = true;
      } else if (!operands && word.text.starts_with("--")) {
        if (const char letter = letterOf(word.text)) has_ += letter;
      } else if (!operands && word.text.starts_with('-')) {
        has_ += word.text.substr(1);
        if (!word.known) free_ += 1;
        if (word.text.contains('R')) has_ += 'r';
      }
    }
  }

  Match options(std::string_view wanted) {
    for (const char letter : wanted.substr(1)) {
      if (has_.contains(letter)) continue;
      if (any_) return Match::kMaybe;
      if (free_ == 0) return Match::kNo;
      --free_;
      used_ = true;
      return Match::kMaybe;
    }
    return Match::kYes;
  }

  Match operand(const std::string& wanted) {
    Match best = Match::kNo;
    for (const Value& word : std::span(execution_.argv).subspan(1)) {
      best = std::max(best, one(wanted, word));
    }
    // A single unknown word cannot be both the option and the path.
    if (best == Match::kMaybe && used_ && unknown_ == 1 && !any_) return Match::kNo;
    return best;
  }

  [[nodiscard]] Match one(const std::string& wanted, const Value& word) const {
    const bool path = wanted.starts_with('/');
    if (word.known && (!path || word.text.starts_with('/'))) {
      const std::string plain = path ? plainPath(word.text) : word.text;
      const bool matches = globMatches(wanted, plain) && !(wanted == "/*" && isOwnPlace(plain));
      return matches ? Match::kYes : Match::kNo;
    }
    if (word.text.starts_with('-')) return Match::kNo;
    if (wanted == "/*" && isOwnPlace(word.text + "…")) return Match::kMaybe;
    // A known beginning suffices for the match, whatever the rest is.
    const std::string_view stem = std::string_view(wanted).substr(0, wanted.find('*'));
    if (!word.text.empty() && word.text.starts_with(stem) && wanted.ends_with('*'))
      return Match::kYes;
    if (path && !word.text.empty() && !word.text.starts_with('/')) {
      const bool away =
          execution_.moved || word.text.starts_with("..") || word.text.contains("/..");
      return away ? Match::kMaybe : Match::kNo;
    }
    if (word.glob && word.text.empty())
      return path && !execution_.moved ? Match::kNo : Match::kMaybe;
    if (word.known) return Match::kNo;
    return word.text.starts_with(stem) || stem.starts_with(word.text) ? Match::kMaybe : Match::kNo;
  }

  const std::vector<std::string>& words_;
  const Execution& execution_;
  std::string letters_;
  std::string has_;
  bool any_ = false;   // some words may expand to any number of any words
  int free_ = 0;       // words with any value
  int unknown_ = 0;    // words not fully known
  bool used_ = false;  // a free word must be an option
  Match result_ = Match::kYes;
};

}  // namespace

std::string commandText(const Execution& execution) {
  std::string text = execution.program;
  for (size_t i = 1; i < execution.argv.size(); ++i) {
    text += ' ';
    text += execution.argv[i].text;
    if (!execution.argv[i].known) text += "…";
  }
  return text;
}

Result<CommandPattern> CommandPattern::parse(Kind kind, std::string text) {
  if (text.empty() || text.size() > kMaxPattern) {
    return fail(Code::kInvalid, "must have 1 to " + std::to_string(kMaxPattern) + " bytes");
  }
  CommandPattern pattern;
  pattern.kind_ = kind;
  if (kind == Kind::kRegex) {
    re2::RE2::Options options;
    options.set_log_errors(false);
    options.set_max_mem(kMaxRegexMemory);
    auto regex = std::make_shared<const re2::RE2>(text, options);
    if (!regex->ok()) return fail(Code::kInvalid, "is not a regular expression: " + regex->error());
    pattern.regex_ = std::move(regex);
  } else {
    pattern.words_ = split(text);
    if (pattern.words_.empty()) return fail(Code::kInvalid, "has no words");
  }
  pattern.text_ = std::move(text);
  return pattern;
}

std::string_view CommandPattern::program() const {
  if (kind_ == Kind::kRegex || kind_ == Kind::kBuiltin || words_[0].contains('*')) return {};
  return words_[0];
}

std::optional<CommandPattern::Programs> CommandPattern::programs() const {
  if (kind_ == Kind::kBuiltin) return Programs{programsOf(text_), true};
  if (kind_ == Kind::kRegex || words_[0] == "*" || words_[0].contains('/')) return std::nullopt;
  const auto any = [](const std::string& word) { return word == "*"; };
  const bool whole = kind_ == Kind::kPrefix    ? words_.size() == 1
                     : kind_ == Kind::kPattern ? std::all_of(words_.begin() + 1, words_.end(), any)
                                               : false;
  return Programs{{words_[0]}, whole};
}

Match CommandPattern::allows(const Execution& execution) const {
  if (everything()) return Match::kYes;
  if (!execution.trusted || execution.argv.empty()) return Match::kNo;
  const auto yes = [](bool match) { return match ? Match::kYes : Match::kNo; };
  if (kind_ == Kind::kBuiltin) return yes(programNamed(execution.program).group == text_);
  const size_t open = kind_ == Kind::kPattern && words_.back() == "*" ? words_.size() - 1
                      : kind_ == Kind::kPrefix                        ? words_.size()
                                                                      : std::string::npos;
  for (size_t i = 1; i < execution.argv.size() && i < open; ++i) {
    if (!execution.argv[i].known) return Match::kNo;
  }
  if (kind_ == Kind::kRegex) return yes(re2::RE2::FullMatch(commandText(execution), *regex_));
  const size_t fixed = std::min(open, words_.size());
  if (execution.argv.size() < fixed) return Match::kNo;
  if (open == std::string::npos && execution.argv.size() != fixed) return Match::kNo;
  for (size_t i = 0; i < fixed; ++i) {
    const std::string& word = i == 0 ? execution.program : execution.argv[i].text;
    if (kind_ == Kind::kPattern ? !globMatches(words_[i], word) : words_[i] != word)
      return Match::kNo;
  }
  return Match::kYes;
}

Match CommandPattern::forbids(const Execution& execution) const {
  if (execution.argv.empty() || execution.program.empty()) return Match::kNo;
  if (kind_ == Kind::kBuiltin) {
    return programNamed(execution.program).group == text_ ? Match::kYes : Match::kNo;
  }
  const bool known = std::ranges::all_of(execution.argv, &Value::known);
  if (kind_ == Kind::kRegex) {
    if (re2::RE2::FullMatch(commandText(execution), *regex_)) return Match::kYes;
    if (known) return Match::kNo;
    // The program is the known beginning of an expression's matches, if plain.
    std::string least;
    std::string most;
    if (!regex_->PossibleMatchRange(&least, &most, 32)) return Match::kMaybe;
    const bool in_range =
        execution.program >= least.substr(0, execution.program.size()) && execution.program <= most;
    return in_range ? Match::kMaybe : Match::kNo;
  }
  if (!globMatches(words_[0], execution.program)) return Match::kNo;
  if (kind_ == Kind::kPattern) return Forbidden(words_, execution).run();
  bool maybe = false;
  for (size_t i = 1; i < words_.size(); ++i) {
    if (i >= execution.argv.size()) return maybe ? Match::kMaybe : Match::kNo;
    if (!execution.argv[i].known) maybe = true;
    if (!maybe && execution.argv[i].text != words_[i]) return Match::kNo;
  }
  if (maybe) return Match::kMaybe;
  return kind_ == Kind::kExact && execution.argv.size() > words_.size() ? Match::kNo : Match::kYes;
}

}  // namespace cloister::policy
