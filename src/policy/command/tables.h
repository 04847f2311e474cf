// SPDX-License-Identifier: Apache-2.0
// The tables of policies/programs.yaml. cmake/program_tables.py generates their definitions from
// the file at build time, so the programs read no file. The tables are constants: nothing is built
// at a program's start. Immutable; thread-safe.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "policy/command/programs.h"

namespace cloister::policy {

// A name, and the number of its row.
struct TableName {
  std::string_view name;
  uint16_t row = 0;
};

// FNV-1a.
constexpr uint32_t hashOf(std::string_view name) {
  uint32_t hash = 2166136261U;
  for (const char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

// Slots by hash with each name's place in `names`, from 1; a name with a taken slot uses the next
// free slot. At most half of the slots are taken, so each search ends.
template <size_t N>
constexpr auto slotsOf(const TableName (&names)[N]) {
  std::array<uint16_t, std::bit_ceil(2 * N)> slots{};
  for (size_t i = 0; i < N; ++i) {
    size_t at = hashOf(names[i].name) % slots.size();
    while (slots[at] != 0)
      at = (at + 1) % slots.size();
    slots[at] = static_cast<uint16_t>(i + 1);
  }
  return slots;
}

struct NameIndex {
  std::span<const TableName> names;  // sorted
  std::span<const uint16_t> slots;   // of slotsOf(): a power of two

  [[nodiscard]] std::optional<size_t> find(std::string_view name) const {
    const size_t mask = slots.size() - 1;
    for (size_t at = hashOf(name) & mask; slots[at] != 0; at = (at + 1) & mask) {
      const TableName& entry = names[slots[at] - 1U];
      if (entry.name == name) return entry.row;
    }
    return std::nullopt;
  }
  [[nodiscard]] bool contains(std::string_view name) const { return find(name).has_value(); }
};

template <class Row>
struct Table {
  std::span<const Row> rows;
  NameIndex index;

  // Null: no row has the name.
  [[nodiscard]] const Row* find(std::string_view name) const {
    const auto row = index.find(name);
    return row ? &rows[*row] : nullptr;
  }
};

// The files made, changed or removed by a program.
struct Writing {
  // The operands that are such files.
  enum class Files : uint8_t {
    kNone,
    kAll,
    kFirst,
    kSecond,     // and all later operands; `-` is the output
    kNamed,      // as kSecond, but `-` is a name
    kLast,       // the others are read; without -t
    kButFirst,   // the first is a mode, an owner or a script
    kOf,         // of=
    kMachine,    // any operand sets something of the machine, but for +FORMAT
    kBeforeOne,  // the first, if there is a second: a command or a descriptor stands there too
    kSeeks,      // input that may be a pipe is copied to a file in /tmp
  };
  Files files = Files::kNone;
  // "-o: --output=": the value names the written file; "-C": the words do not name the file.
  std::string_view options = {};
  // Options with a separate word as value: "-k --key=". The value of a missing option counts as an
  // operand, which is on the safe side.
  std::string_view values = {};
  std::string_view when = {};       // operands are written only with one of these options
  std::string_view unless = {};     // nothing is written with any of these
  std::string_view otherwise = {};  // written if the words name nothing; "?": some file
  bool command = false;             // options end at the first operand, and a command follows
  bool first_operand = false;       // options end at the first operand, and others follow
  bool whole_words = false;         // options with one - are words, not letters
};

// A variable, by how its name begins.
struct VariableStart {
  std::string_view start;
  Variable what = Variable::kPlain;
};

extern const Table<Program> kPrograms;
extern const Table<Writing> kWritings;
extern const Table<Variable> kVariables;                      // whole names, with precedence
extern const std::span<const VariableStart> kVariableStarts;  // the longest first
extern const NameIndex kGitCommands;                          // any other is doubt
extern const NameIndex kPythonModules;                        // modules that run their words
extern const std::span<const std::string_view> kGitSettings;  // how the names of plain ones begin
extern const std::span<const std::string_view> kSshSettings;

}  // namespace cloister::policy
