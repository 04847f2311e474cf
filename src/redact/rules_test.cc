// SPDX-License-Identifier: Apache-2.0
#include "redact/rules.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::redact {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr size_t kLongest = 64;

std::shared_ptr<const Rules> rulesOf(std::vector<Rule> rules) {
  auto made = Rules::make(std::move(rules), kLongest);
  EXPECT_TRUE(made) << made.error().why;
  return *made;
}

std::shared_ptr<const Rules> rule(const std::string& pattern,
                                  RuleAction action = RuleAction::kRedact) {
  return rulesOf({{"rule", pattern, action}});
}

// The text in pieces of this size.
std::string through(RuleStream& stream, std::string_view text, size_t piece) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += piece)
    out += stream.feed(text.substr(at, piece));
  return out + stream.finish();
}

TEST(Rules, MasksEachByteWhereverThePiecesEnd) {
  const std::string text = "card 4111111111111111, and 4222222222222222\nno 411111111111111\n";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    RuleStream stream(rule(R"(\b\d{16}\b)"));
    EXPECT_EQ(through(stream, text, piece),
              "card ****************, and ****************\nno 411111111111111\n")
        << piece;
    EXPECT_THAT(stream.hits(), ElementsAre(2));
  }
}

TEST(Rules, AReportChangesAndDelaysNothing) {
  RuleStream stream(rule("secret", RuleAction::kReport));
  EXPECT_EQ(stream.feed("a sec"), "a sec");
  EXPECT_EQ(stream.feed("ret b"), "ret b");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_THAT(stream.hits(), ElementsAre(1));
  EXPECT_EQ(stream.refusing(), nullptr);
}

TEST(Rules, NothingPassesFromARefusedMatchOn) {
  for (size_t piece = 1; piece < 20; ++piece) {
    RuleStream stream(rule("sec[a-z]+", RuleAction::kRefuse));
    EXPECT_EQ(through(stream, "one\ntwo secret three\nfour\n", piece), "one\ntwo ") << piece;
    ASSERT_NE(stream.refusing(), nullptr);
    EXPECT_EQ(stream.refusing()->name, "rule");
  }
}

TEST(Rules, TheFirstOfSeveralRefusingRulesDecides) {
  RuleStream stream(rulesOf({{"late", "BB", RuleAction::kRefuse},
                             {"early", "AA", RuleAction::kRefuse},
                             {"counted", "x", RuleAction::kReport}}));
  EXPECT_EQ(stream.feed("x AA BB\n"), "x ");
  EXPECT_EQ(stream.refusing()->name, "early");
  EXPECT_EQ(stream.feed("more\n"), "");
  EXPECT_EQ(stream.finish(), "");
}

TEST(Rules, LinesPassAtOnceAndTheirRestAtTheEnd) {
  RuleStream stream(rule("secret"));
  EXPECT_EQ(stream.feed("line\nprompt> "), "line\n");
  EXPECT_EQ(stream.feed("secret"), "");
  EXPECT_EQ(stream.finish(), "prompt> ******");
}

TEST(Rules, LongLinesAreSearchedInPieces) {
  const std::string filler(1000, '.');
  const std::string token = "token-" + std::string(kLongest - 6, 'a');
  const std::string text = filler + token + filler + token;
  for (const size_t piece : {1UL, 7UL, 64UL, 100UL, 5000UL}) {
    RuleStream stream(rule("token-a+"));
    const std::string out = through(stream, text, piece);
    EXPECT_EQ(out, filler + std::string(kLongest, '*') + filler + std::string(kLongest, '*'))
        << piece;
    EXPECT_THAT(stream.hits(), ElementsAre(2)) << piece;
  }
  RuleStream bounded(rule("x"));
  EXPECT_FALSE(bounded.feed(filler).empty());  // a line without an end is not kept whole
}

TEST(Rules, AMatchStaysWithinItsLine) {
  RuleStream stream(rule(R"(a\s*b|^c$)"));
  EXPECT_EQ(stream.feed("a\nb\na b\nc\ncc\n"), "a\nb\n***\n*\ncc\n");
}

TEST(Rules, BytesThatAreNoTextAreNoObstacle) {
  RuleStream stream(rule("key"));
  EXPECT_EQ(stream.feed(std::string_view("\xff\0key\xfe\n", 7)),
            std::string_view("\xff\0***\xfe\n", 7));
}

TEST(Rules, RulesMayOverlap) {
  RuleStream stream(
      rulesOf({{"a", "abc", RuleAction::kRedact}, {"b", "cde", RuleAction::kReport}}));
  EXPECT_EQ(stream.feed("abcde\n"), "***de\n");
  EXPECT_THAT(stream.hits(), ElementsAre(1, 1));
}

TEST(Rules, EmptyMatchesAreNone) {
  RuleStream stream(rule("x*"));
  EXPECT_EQ(stream.feed("axb\n"), "a*b\n");
  EXPECT_THAT(stream.hits(), ElementsAre(1));
}

TEST(Rules, AWholeTextKeepsItsLength) {
  std::vector<uint64_t> hits;
  EXPECT_EQ(masked(rule("key", RuleAction::kRefuse), "a key b", hits), "a *****");
  EXPECT_EQ(masked(rule("key"), "a key b", hits), "a *** b");
  EXPECT_THAT(hits, ElementsAre(2));
}

TEST(Rules, ABadPatternIsNamed) {
  const auto made = Rules::make({{"good", "a", {}}, {"bad", "(", {}}}, kLongest);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().rule, 1U);
  EXPECT_THAT(made.error().why, HasSubstr("missing"));
}

}  // namespace
}  // namespace cloister::redact
