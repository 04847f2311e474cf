// SPDX-License-Identifier: Apache-2.0
#include "base/flags.h"

#include <algorithm>
#include <charconv>

#include "base/nearest.h"

namespace cloister::base {
namespace {

// All that an argument may name.
struct Vocabulary {
  std::span<const Flag> flags;
  std::span<const FlagWord> words;

  [[nodiscard]] const Flag* named(std::string_view name) const {
    const auto found = std::ranges::find(flags, name, &Flag::name);
    return found == flags.end() ? nullptr : &*found;
  }
  [[nodiscard]] const Flag* lettered(char letter) const {
    const auto found = std::ranges::find(flags, letter, &Flag::letter);
    return found == flags.end() ? nullptr : &*found;
  }
  // The entry of `shown` ("--lang") whose flag is known here.
  [[nodiscard]] const FlagWord* wordFor(std::string_view shown) const {
    const auto found = std::ranges::find_if(words, [&](const FlagWord& each) {
      return each.word == shown && named(each.flag) != nullptr;
    });
    return found == words.end() ? nullptr : &*found;
  }
};

// An argument taken apart: --name[=value] or -n[value].
struct Spelling {
  std::string shown;
  const Flag* flag = nullptr;
  std::optional<std::string> value;
  std::string_view unit;  // of an earlier name's bare numbers

  [[nodiscard]] bool isSwitch() const { return flag != nullptr && flag->value.empty(); }
};

Spelling spell(const Vocabulary& known, const std::string& argument) {
  Spelling spelling;
  if (argument.starts_with("--")) {
    const size_t equals = argument.find('=');
    spelling.shown = argument.substr(0, equals);
    if (equals != std::string::npos) spelling.value = argument.substr(equals + 1);
    spelling.flag = known.named(spelling.shown.substr(2));
  } else {
    spelling.shown = argument.substr(0, 2);
    if (argument.size() > 2) spelling.value = argument.substr(2);
    spelling.flag = known.lettered(argument[1]);
  }
  if (spelling.flag != nullptr) return spelling;
  const FlagWord* word = known.wordFor(spelling.shown);
  if (word == nullptr || !word->accepted) return spelling;
  spelling.flag = known.named(word->flag);
  spelling.unit = word->unit;
  return spelling;
}

std::unexpected<Error> unknownFlag(const Vocabulary& known, const std::string& shown) {
  std::string meant;
  if (const FlagWord* word = known.wordFor(shown); word != nullptr) {
    meant = "--" + std::string(word->flag);
  } else {
    std::vector<std::string> names;
    for (const Flag& flag : known.flags) {
      if (!flag.help.empty()) names.push_back("--" + std::string(flag.name));
    }
    meant = meantName(shown, names);
  }
  const std::string hint = meant.empty() ? "" : "; did you mean " + meant + "?";
  return fail(Code::kInvalid, shown + ": unknown flag" + hint, shown);
}

bool isSame(std::string_view one, std::string_view other) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(one, other, {}, lower, lower);
}

// The choice as the table spells it.
Result<std::string> choiceOf(const Flag& flag, std::string value) {
  if (flag.choices.empty()) return value;
  std::string list;
  for (std::string_view left = flag.choices; !left.empty();) {
    const std::string_view choice = left.substr(0, left.find(' '));
    left.remove_prefix(std::min(choice.size() + 1, left.size()));
    if (isSame(choice, value)) return std::string(choice);
    const bool last = left.empty() && !list.empty();
    list.append(list.empty() ? "" : last ? " or " : ", ").append(choice);
  }
  const std::string shown = "--" + std::string(flag.name);
  return fail(Code::kInvalid, shown + ": must be " + list + ", not \"" + value + "\"", shown);
}

bool isBareNumber(std::string_view text) {
  const auto digit = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  return !text.empty() && std::ranges::all_of(text, digit);
}

template <class T>
Result<std::optional<T>> inRange(std::string_view name, const std::optional<std::string>& text,
                                 T min, T max) {
  if (!text) return std::nullopt;
  T value{};
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc() && stop == end && value >= min && value <= max) return value;
  const std::string flag = "--" + std::string(name);
  std::string bounds = std::to_string(static_cast<int64_t>(min)) + " to " +
                       std::to_string(static_cast<int64_t>(max));
  return fail(Code::kInvalid, flag + ": must be a number from " + bounds + ", not " + *text, flag);
}

}  // namespace

Result<Flags> Flags::parse(std::span<const Flag> known, std::span<const std::string> arguments,
                           std::span<const FlagWord> words) {
  const Vocabulary vocabulary{known, words};
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string argument = arguments[i];
    if (argument == "--") {
      flags.rest_.assign(arguments.begin() + static_cast<ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      flags.operands_.push_back(argument);
      continue;
    }
    Spelling spelling = spell(vocabulary, argument);
    // Switches in one word: -it is -i -t.
    while (spelling.isSwitch() && !argument.starts_with("--") && spelling.value) {
      TRY(flags.add(*spelling.flag, ""));
      argument = "-" + *spelling.value;
      spelling = spell(vocabulary, argument);
    }
    if (spelling.flag == nullptr) return unknownFlag(vocabulary, spelling.shown);
    if (spelling.isSwitch() && spelling.value) {
      return fail(Code::kInvalid, spelling.shown + ": takes no value", spelling.shown);
    }
    if (!spelling.isSwitch() && !spelling.value) {
      if (i + 1 == arguments.size()) {
        const std::string wanted(spelling.flag->value);
        return fail(Code::kInvalid, spelling.shown + ": needs a value, " + wanted, spelling.shown);
      }
      spelling.value = arguments[++i];
    }
    std::string value = std::move(spelling.value).value_or("");
    if (isBareNumber(value)) value += spelling.unit;
    value = TRY(choiceOf(*spelling.flag, std::move(value)));
    TRY(flags.add(*spelling.flag, std::move(value)));
  }
  return flags;
}

Result<> Flags::add(const Flag& flag, std::string value) {
  std::vector<std::string>& values = values_[std::string(flag.name)];
  if (!values.empty() && !flag.many && !flag.value.empty()) {
    const std::string shown = "--" + std::string(flag.name);
    return fail(Code::kInvalid, shown + ": given twice", shown);
  }
  values.push_back(std::move(value));
  return {};
}

std::optional<std::string> Flags::text(std::string_view name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return std::nullopt;
  return found->second.back();
}

std::vector<std::string> Flags::all(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

Result<std::optional<int64_t>> Flags::integer(std::string_view name, int64_t min,
                                              int64_t max) const {
  return inRange(name, text(name), min, max);
}

Result<std::optional<double>> Flags::number(std::string_view name, double min, double max) const {
  return inRange(name, text(name), min, max);
}

}  // namespace cloister::base
