// SPDX-License-Identifier: Apache-2.0
#include "policy/command/programs.h"

#include "policy/command/tables.h"

namespace cloister::policy {
namespace {

constexpr Program kUnknownProgram;

}  // namespace

const Program& programNamed(std::string_view name) {
  constexpr std::string_view kMakesFileSystems = "mkfs";  // mkfs.ext4 as well
  if (const Program* program = kPrograms.find(name)) return *program;
  const size_t end = name.find_last_not_of("0123456789.-");
  if (end == std::string_view::npos) return kUnknownProgram;
  const std::string_view stem = name.substr(0, end + 1);
  const bool makes = stem.starts_with(kMakesFileSystems);
  const Program* program = kPrograms.find(makes ? kMakesFileSystems : stem);
  return program != nullptr ? *program : kUnknownProgram;
}

std::vector<std::string> programsOf(std::string_view group) {
  std::vector<std::string> names;
  for (const TableName& entry : kPrograms.index.names) {
    if (kPrograms.rows[entry.row].group == group) names.emplace_back(entry.name);
  }
  return names;
}

Option findOption(std::string_view list, std::string_view option) {
  Option result = Option::kAbsent;
  anyWord(list, [&](std::string_view entry) {
    const bool value = entry.ends_with(':') || entry.ends_with('=');
    if (value) entry.remove_suffix(1);
    if (entry != option) return false;
    result = value ? Option::kValue : Option::kFlag;
    return true;
  });
  return result;
}

bool mayBeOption(std::string_view list, std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  const bool lengthy = word.starts_with("--");
  const std::string_view given = word.substr(0, word.find('='));
  return anyWord(list, [&](std::string_view option) {
    if (lengthy) return option.starts_with("--") && given.size() > 2 && option.starts_with(given);
    if (option.starts_with("--")) return false;
    if (option.size() == 2) return word.contains(option[1]);
    return word.starts_with(option);
  });
}

}  // namespace cloister::policy
