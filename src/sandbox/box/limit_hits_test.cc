// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/limit_hits.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace cloister::runtime {
namespace {

using model::End;

bool said(std::initializer_list<std::string_view> pieces) {
  TooManyOpenFiles text;
  for (const std::string_view piece : pieces)
    text.read(piece);
  return text.said();
}

TEST(TooManyOpenFiles, IsFoundAsProgramsSayIt) {
  EXPECT_TRUE(said({"OSError: [Errno 24] Too many open files: '/dev/null'\n"}));
  EXPECT_TRUE(said({"Error: EMFILE: too many open files, open 'x'\n"}));
  EXPECT_TRUE(said({"open: Too many open files"})) << "at the end";
  EXPECT_TRUE(said({"open: EMF", "ILE\n"}));
  EXPECT_TRUE(said({"x", "Too many o", "pen files", "\n", "more"}));
  EXPECT_TRUE(said({"Too many open files", std::string(100'000, 'x')}));
  EXPECT_FALSE(said({"Too many open files in system\n"})) << "ENFILE";
  EXPECT_FALSE(said({"Too many open files in sy", "stem\n"}));
  EXPECT_FALSE(said({"Too many open", " doors\n"}));
  EXPECT_FALSE(said({}));
}

struct OpenFilesCase {
  const char* why;
  End end;
  int exit_code;
  Scratch scratch;
  bool said;
  bool met;
  bool probable = false;
};

class OpenFilesTest : public testing::TestWithParam<OpenFilesCase> {};

TEST_P(OpenFilesTest, AreNamedWhereTheProgramFailedAtThem) {
  const OpenFilesCase& of = GetParam();
  model::Outcome outcome;
  outcome.end = of.end;
  outcome.exit_code = of.exit_code;
  addOpenFiles(outcome, of.scratch, of.said, {.open_files = 64});
  EXPECT_EQ(!outcome.limits.empty(), of.met) << of.why;
  if (of.met) {
    EXPECT_EQ(outcome.limits.front().limit, "open_files");
    EXPECT_EQ(outcome.limits.front().value, 64U);
    EXPECT_FALSE(outcome.limits.front().fatal);
    EXPECT_EQ(outcome.limits.front().used, of.scratch.open_files);
    EXPECT_EQ(outcome.limits.front().isProbable(), of.probable) << of.why;
  }
  EXPECT_EQ(outcome.usage.open_files.value_or(0), of.scratch.open_files) << "as it was seen";
}

INSTANTIATE_TEST_SUITE_P(
    All, OpenFilesTest,
    testing::Values(
        OpenFilesCase{"seen at it", End::kExited, 1, {.open_files = 64}, false, true},
        OpenFilesCase{"it says so, and nobody looked", End::kExited, 1, {}, true, true, true},
        OpenFilesCase{"it aborted", End::kSignaled, 0, {}, true, true, true},
        OpenFilesCase{"they are closed again",
                      End::kExited,
                      1,
                      {.open_files = 3, .file_table = 64},
                      true,
                      true,
                      true},
        OpenFilesCase{"it never had so many",
                      End::kExited,
                      1,
                      {.open_files = 3, .file_table = 32},
                      true,
                      false},
        OpenFilesCase{"it did well", End::kExited, 0, {.open_files = 64}, true, false},
        OpenFilesCase{"something else", End::kExited, 1, {.open_files = 63}, false, false},
        OpenFilesCase{
            "something else killed it", End::kTimedOut, 0, {.open_files = 64}, true, false}));

}  // namespace
}  // namespace cloister::runtime
