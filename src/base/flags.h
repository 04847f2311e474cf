// SPDX-License-Identifier: Apache-2.0
// Command-line flags from a table: the same strict rules for every program of ours. GNU style:
// `--name value`, `--name=value`, `-n value`, `-nvalue`, `-ab` for the switches -a and -b; flags
// may stand among the operands; `--` ends them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace cloister::base {

struct Flag {
  std::string_view name;   // "timeout", for --timeout
  std::string_view value;  // "SECONDS", the name of its value; "" for a switch
  std::string_view help;   // "": hidden from --help
  char letter = 0;         // 'c' for -c
  bool many = false;       // may be given more than once
  // The possible values, separated by spaces; "" for any. Their case does not matter.
  std::string_view choices = {};
};

// Another word for a flag: an earlier name of ours, which is still accepted, or a word of other
// tools, which is only suggested.
struct FlagWord {
  std::string_view word;  // "--ttl-seconds", "-m"
  std::string_view flag;  // "ttl"
  bool accepted = false;
  std::string_view unit = {};  // appended to a value that is a bare number: "s"
};

class Flags {
 public:
  // kInvalid for an unknown flag (naming the one of the same meaning, or the nearest), a value that
  // is missing, not wanted or no choice, and a flag given twice. `known` must outlive the result. A
  // word of `words` counts only if its flag is known, and the word itself is not.
  static Result<Flags> parse(std::span<const Flag> known, std::span<const std::string> arguments,
                             std::span<const FlagWord> words = {});

  [[nodiscard]] bool has(std::string_view name) const { return values_.contains(name); }
  [[nodiscard]] std::optional<std::string> text(std::string_view name) const;
  [[nodiscard]] std::vector<std::string> all(std::string_view name) const;
  // In [min, max], else kInvalid.
  [[nodiscard]] Result<std::optional<int64_t>> integer(std::string_view name, int64_t min,
                                                       int64_t max) const;
  [[nodiscard]] Result<std::optional<double>> number(std::string_view name, double min,
                                                     double max) const;

  [[nodiscard]] const std::vector<std::string>& operands() const { return operands_; }
  [[nodiscard]] const std::vector<std::string>& rest() const { return rest_; }  // after `--`

 private:
  Result<> add(const Flag& flag, std::string value);

  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  std::vector<std::string> operands_;
  std::vector<std::string> rest_;
};

}  // namespace cloister::base
