// SPDX-License-Identifier: Apache-2.0
#include "base/flags.h"

#include <algorithm>
#include <charconv>

#include "base/nearest.h"

namespace cloister::base {
namespace {

// An argument taken apart: --name[=value] or -n[value].
struct Spelling {
  std::string shown;
  const Flag* flag = nullptr;
  std::optional<std::string> value;
};

Spelling spell(std::span<const Flag> known, const std::string& argument) {
  Spelling spelling;
  if (argument.starts_with("--")) {
    const size_t equals = argument.find('=');
    spelling.shown = argument.substr(0, equals);
    if (equals != std::string::npos) spelling.value = argument.substr(equals + 1);
    const auto found = std::ranges::find(known, spelling.shown.substr(2), &Flag::name);
    if (found != known.end()) spelling.flag = &*found;
  } else {
    spelling.shown = argument.substr(0, 2);
    if (argument.size() > 2) spelling.value = argument.substr(2);
    const auto found = std::ranges::find(known, argument[1], &Flag::letter);
    if (found != known.end()) spelling.flag = &*found;
  }
  return spelling;
}

std::unexpected<Error> unknownFlag(std::span<const Flag> known, const std::string& shown) {
  std::vector<std::string> names;
  for (const Flag& flag : known) {
    if (!flag.help.empty()) names.push_back("--" + std::string(flag.name));
  }
  const std::string nearest = nearestName(shown, names);
  const std::string hint = nearest.empty() ? "" : "; did you mean " + nearest + "?";
  return fail(Code::kInvalid, shown + ": unknown flag" + hint, shown);
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

Result<Flags> Flags::parse(std::span<const Flag> known, std::span<const std::string> arguments) {
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      flags.rest_.assign(arguments.begin() + static_cast<ptrdiff_t>(i) + 1, arguments.end());
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') {
      flags.operands_.push_back(argument);
      continue;
    }
    Spelling spelling = spell(known, argument);
    if (spelling.flag == nullptr) return unknownFlag(known, spelling.shown);
    const bool wants_value = !spelling.flag->value.empty();
    if (!wants_value && spelling.value) {
      return fail(Code::kInvalid, spelling.shown + ": takes no value", spelling.shown);
    }
    if (wants_value && !spelling.value) {
      if (i + 1 == arguments.size()) {
        const std::string wanted(spelling.flag->value);
        return fail(Code::kInvalid, spelling.shown + ": needs a value, " + wanted, spelling.shown);
      }
      spelling.value = arguments[++i];
    }
    TRY(flags.add(*spelling.flag, std::move(spelling.value).value_or("")));
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
