// SPDX-License-Identifier: Apache-2.0
#include "sandbox/box/limit_hits.h"

#include <signal.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

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

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr Scratch kFull{.bytes = 16 * kMiB, .bytes_total = 16 * kMiB};
constexpr Scratch kRoomy{.bytes = kMiB, .bytes_total = 16 * kMiB};

std::vector<model::LimitHit> scratchHits(const Scratch& scratch, WorkspaceState& state,
                                         bool said = false, int exit_code = 0) {
  model::Outcome outcome;
  outcome.end = End::kExited;
  outcome.exit_code = exit_code;
  const WorkspaceUse use(state);
  addScratchHits(outcome, scratch, {.disk_bytes = 16 * kMiB, .file_bytes = kMiB}, state, said);
  return outcome.limits;
}

TEST(ScratchHits, OnlyTheProgramThatFilledTheWorkspaceIsTold) {
  WorkspaceState state;
  EXPECT_TRUE(scratchHits(kRoomy, state).empty());
  const auto filled = scratchHits(kFull, state);
  ASSERT_EQ(filled.size(), 1U);
  EXPECT_EQ(filled[0].limit, "disk_mb");
  EXPECT_EQ(filled[0].used, 16 * kMiB);
  EXPECT_FALSE(filled[0].isProbable());
  EXPECT_TRUE(scratchHits(kFull, state, false, 1).empty()) << "it was full before";
  EXPECT_TRUE(scratchHits(kRoomy, state).empty());
  EXPECT_EQ(scratchHits(kFull, state).size(), 1U) << "filled again";
  EXPECT_EQ(state.programs, 0U);
}

TEST(ScratchHits, AProgramThatFailsForAFullWorkspaceIsTold) {
  WorkspaceState state{.full = true};
  const auto met = scratchHits(kFull, state, true, 1);
  ASSERT_EQ(met.size(), 1U);
  EXPECT_FALSE(met[0].isProbable());
  EXPECT_TRUE(scratchHits(kFull, state, true, 0).empty()) << "it did well";
}

TEST(ScratchHits, AmongSeveralProgramsOnlyTheWordsTell) {
  WorkspaceState state;
  const WorkspaceUse other(state);
  EXPECT_TRUE(scratchHits(kFull, state, false, 1).empty());
  EXPECT_EQ(scratchHits(kFull, state, true, 1).size(), 1U);
}

TEST(ScratchHits, AProgramThatRemovedItsFilesHasProbablyMetTheLimit) {
  WorkspaceState state;
  const auto met = scratchHits(kRoomy, state, true, 1);
  ASSERT_EQ(met.size(), 1U);
  EXPECT_EQ(met[0].value, 16 * kMiB);
  EXPECT_EQ(met[0].used, kMiB);
  EXPECT_TRUE(met[0].isProbable());
  EXPECT_TRUE(scratchHits(kRoomy, state, true, 0).empty());
  EXPECT_TRUE(scratchHits(kRoomy, state, false, 1).empty());
}

TEST(ScratchHits, TheNumberOfFilesIsJudgedAlike) {
  constexpr Scratch kAll{.bytes_total = 16 * kMiB, .inodes = 200, .inodes_total = 200};
  WorkspaceState state;
  const auto met = scratchHits(kAll, state);
  ASSERT_EQ(met.size(), 1U);
  EXPECT_EQ(met[0].limit, "inodes");
  EXPECT_TRUE(scratchHits(kAll, state).empty());
  const auto said = scratchHits(kAll, state, true, 1);
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(said[0].limit, "inodes");
}

TEST(NoSpaceLeft, IsFoundAsProgramsSayIt) {
  const auto said = [](std::initializer_list<std::string_view> pieces) {
    NoSpaceLeft text;
    for (const std::string_view piece : pieces)
      text.read(piece);
    return text.said();
  };
  EXPECT_TRUE(said({"OSError: [Errno 28] No space left on device\n"}));
  EXPECT_TRUE(said({"no space le", "ft on dev", "ice"}));
  EXPECT_TRUE(said({"Error: ENOS", "PC: no"}));
  EXPECT_TRUE(said({"No space left on device", std::string(100'000, 'x')}));
  EXPECT_FALSE(said({"No space left ", std::string(100, 'x'), "on device"}));
  EXPECT_FALSE(said({}));
}

std::vector<model::LimitHit> signalHits(int signal, int64_t cpu_ms, uint64_t apart = 0,
                                        uint64_t largest = 0) {
  model::Outcome outcome;
  outcome.end = End::kSignaled;
  outcome.signal = signal;
  outcome.usage.cpu_ms = cpu_ms;
  const bool met =
      addSignalHit(outcome, {.largest_file = largest}, {.file_bytes = kMiB}, 1000, apart);
  EXPECT_EQ(met, !outcome.limits.empty());
  return outcome.limits;
}

TEST(SignalHits, ProcessorTimeIsMetOnlyWhereItWasUsed) {
  for (const int signal : {SIGXCPU, SIGKILL}) {
    EXPECT_TRUE(signalHits(signal, 999).empty());
    EXPECT_TRUE(signalHits(signal, 899, 100).empty());
    EXPECT_EQ(signalHits(signal, 900, 100).size(), 1U);
    const auto met = signalHits(signal, 1000);
    ASSERT_EQ(met.size(), 1U);
    EXPECT_EQ(met[0].limit, "cpu_seconds");
    EXPECT_EQ(met[0].used, 1000U);
    EXPECT_TRUE(met[0].fatal);
  }
  EXPECT_TRUE(signalHits(SIGSEGV, 5000).empty());
}

TEST(SignalHits, TheSizeOfAFileIsTheOneSeen) {
  const auto met = signalHits(SIGXFSZ, 0, 0, kMiB);
  ASSERT_EQ(met.size(), 1U);
  EXPECT_EQ(met[0].limit, "file_size_mb");
  EXPECT_FALSE(met[0].isProbable());
  const auto guess = signalHits(SIGXFSZ, 0, 0, 512);
  ASSERT_EQ(guess.size(), 1U);
  EXPECT_EQ(guess[0].used, 512U);
  EXPECT_TRUE(guess[0].isProbable());
}

}  // namespace
}  // namespace cloister::runtime
