// SPDX-License-Identifier: Apache-2.0
// One pattern of a rule about commands, and whether a command matches it. The only file that knows
// RE2 is pattern.cc. Immutable once parsed; thread-safe.
//
//   exact: "cargo check"     these words and no others
//   prefix: "git log"        these words first
//   regex: "npm (test|ci)"   RE2, over the whole command, words joined by a space
//   builtin: read_only       a group of programs that the filter knows
//   pattern: "rm -rf /*"     the document's form: as `exact`, where a * stands for any characters
//                            and a last * for any words
//
// A different spelling must not evade a rule that forbids. So the options of such a `pattern` count
// in any order, bundled or long, and its other words anywhere, as paths in their plain form.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/command/effects.h"

namespace re2 {
class RE2;
}

namespace cloister::policy {

enum class Match : uint8_t { kNo, kMaybe, kYes };

class CommandPattern {
 public:
  enum class Kind : uint8_t { kExact, kPrefix, kRegex, kBuiltin, kPattern };

  static Result<CommandPattern> parse(Kind kind, std::string text);

  // For an allowing rule: kYes or kNo; unknown parts of a command never match, except for *.
  [[nodiscard]] Match allows(const Execution& execution) const;
  // For a forbidding rule: kMaybe if unknown words could match.
  [[nodiscard]] Match forbids(const Execution& execution) const;
  // The pattern's program, "" for any or several.
  [[nodiscard]] std::string_view program() const;
  [[nodiscard]] const std::string& text() const { return text_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] bool everything() const { return kind_ == Kind::kPattern && text_ == "*"; }
  // The names of the pattern's programs, whatever their arguments; * stands for any characters.
  // nullopt: unknown. `whole`: applies to all uses of the programs.
  struct Programs {
    std::vector<std::string> names;
    bool whole = false;
  };
  [[nodiscard]] std::optional<Programs> programs() const;

 private:
  Kind kind_ = Kind::kPattern;
  std::string text_;
  std::vector<std::string> words_;
  std::shared_ptr<const re2::RE2> regex_;
};

// The words of a command, joined by a space; unknown parts are written as "…".
std::string commandText(const Execution& execution);

}  // namespace cloister::policy
