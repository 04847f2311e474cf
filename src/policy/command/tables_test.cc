// SPDX-License-Identifier: Apache-2.0
#include "policy/command/tables.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

namespace cloister::policy {
namespace {

void expectIndex(const NameIndex& index, size_t least) {
  EXPECT_GE(index.names.size(), least);
  EXPECT_TRUE(std::ranges::is_sorted(index.names, {}, &TableName::name));
  for (const TableName& entry : index.names) {
    EXPECT_EQ(index.find(entry.name), entry.row) << entry.name;
    EXPECT_FALSE(index.contains(std::string(entry.name) + "?")) << entry.name;
  }
  EXPECT_FALSE(index.contains(""));
  EXPECT_FALSE(index.contains(std::string(1 << 16, 'x')));
}

TEST(Tables, FindEachNameAndNoOther) {
  expectIndex(kPrograms.index, 500);
  expectIndex(kWritings.index, 80);
  expectIndex(kVariables.index, 180);
  expectIndex(kGitCommands, 70);
  expectIndex(kPythonModules, 10);
  EXPECT_FALSE(kGitCommands.contains("add am"));
}

// Such a row would be shadowed by the kind of programs without a row.
TEST(Tables, SayOfEachProgramMoreThanNothing) {
  for (const Program& program : kPrograms.rows) {
    EXPECT_NE(program.kind, Program::Kind::kUnknown);
    EXPECT_FALSE(program.group.empty());
  }
}

TEST(Tables, HaveVersionsOfPrograms) {
  EXPECT_EQ(&programNamed("python3.11"), kPrograms.find("python"));
  EXPECT_EQ(&programNamed("mkfs.ext4"), kPrograms.find("mkfs"));
  EXPECT_EQ(programNamed("python3.11x").kind, Program::Kind::kUnknown);
  EXPECT_EQ(programNamed("3.11").kind, Program::Kind::kUnknown);
  EXPECT_EQ(programNamed("").kind, Program::Kind::kUnknown);
}

TEST(Tables, TakeTheWholeNameOfAVariableFirst) {
  EXPECT_EQ(variableNamed("RUSTDOCFLAGS"), Variable::kFlags);
  EXPECT_EQ(variableNamed("RUSTDOC"), Variable::kChanges);
  EXPECT_EQ(variableNamed("RUSTDOCFLAGS2"), Variable::kChanges);
  EXPECT_EQ(variableNamed("RUSTDO"), Variable::kPlain);
  EXPECT_EQ(variableNamed(""), Variable::kPlain);
  const auto longer = [](const VariableStart& a, const VariableStart& b) {
    return a.start.size() > b.start.size();
  };
  EXPECT_TRUE(std::ranges::is_sorted(kVariableStarts, longer));
}

}  // namespace
}  // namespace cloister::policy
