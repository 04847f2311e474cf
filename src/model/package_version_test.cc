// SPDX-License-Identifier: Apache-2.0
#include "model/package_version.h"

#include <gtest/gtest.h>

namespace cloister::model {
namespace {

PypiVersion pypi(std::string_view text) {
  const auto version = PypiVersion::parse(text);
  EXPECT_TRUE(version) << text;
  return version.value_or(PypiVersion{.release = {0}});
}

NpmVersion npm(std::string_view text) {
  const auto version = NpmVersion::parse(text);
  EXPECT_TRUE(version) << text;
  return version.value_or(NpmVersion{});
}

template <class Version>
bool has(const Version& version, std::string_view conditions) {
  const auto all = readConditions(conditions);
  EXPECT_TRUE(all) << conditions;
  return all && std::ranges::all_of(*all, [&](const auto& each) { return meets(version, each); });
}

// "Summary of permitted suffixes and relative ordering" of PEP 440, and the test list of the
// library `packaging`.
TEST(PypiVersionTest, OrderOfPep440) {
  const char* const ordered[] = {
      "1.0.dev456",    "1.0a1",         "1.0a2.dev456", "1.0a12.dev456",
      "1.0a12",        "1.0b1.dev456",  "1.0b2",        "1.0b2.post345.dev456",
      "1.0b2.post345", "1.0rc1.dev456", "1.0rc1",       "1.0",
      "1.0+abc.5",     "1.0+abc.7",     "1.0+5",        "1.0.post456.dev34",
      "1.0.post456",   "1.0.15",        "1.1.dev1",     "1!1.0.dev456",
      "1!1.0",         "1!1.1.dev1"};
  for (size_t i = 0; i + 1 < std::size(ordered); ++i) {
    EXPECT_LT(pypi(ordered[i]), pypi(ordered[i + 1])) << ordered[i] << " " << ordered[i + 1];
    EXPECT_FALSE(pypi(ordered[i + 1]) < pypi(ordered[i])) << ordered[i];
  }
}

TEST(PypiVersionTest, NormalisedSpellings) {
  const std::pair<const char*, const char*> same[] = {
      {"1.0A1", "1.0a1"},       {"1.0.alpha-1", "1.0a1"},  {"1.0-beta_2", "1.0b2"},
      {"1.0c3", "1.0rc3"},      {"1.0pre", "1.0rc0"},      {"1.0.preview4", "1.0rc4"},
      {"1.0-1", "1.0.post1"},   {"1.0.rev3", "1.0.post3"}, {"1.0-r4", "1.0.post4"},
      {"1.0_DEV", "1.0.dev0"},  {"v1.0", "1.0"},           {"1.0+Ubuntu-1", "1.0+ubuntu.1"},
      {" 1.0 ", "1.0"},         {"01.002", "1.2"},         {"0!1.0", "1.0"},
      {"1.0.post", "1.0.post0"}};
  for (const auto& [spelled, normal] : same)
    EXPECT_EQ(pypi(spelled).text(), normal) << spelled;
  EXPECT_EQ(pypi("1.0"), pypi("1.0.0"));
}

TEST(PypiVersionTest, Malformed) {
  for (const char* text :
       {"", " ", "french toast", "1.", "1.0+", "1.0+a+", "1.0++", "1.0+_foobar", "1.0+foo&asd",
        "1.0+1+1", "!1", "1!", "1.0.dev1a", "../1", "1.0/2", "99999999999999999999"}) {
    EXPECT_FALSE(PypiVersion::parse(text)) << text;
  }
  EXPECT_FALSE(PypiVersion::parse(std::string(kMaxVersion + 1, '1')));
}

// The examples of "Version specifiers".
TEST(PypiVersionTest, Specifiers) {
  EXPECT_TRUE(has(pypi("2.2"), "~=2.2"));
  EXPECT_TRUE(has(pypi("2.9"), "~=2.2"));
  EXPECT_FALSE(has(pypi("3.0"), "~=2.2"));
  EXPECT_FALSE(has(pypi("2.1"), "~=2.2"));
  EXPECT_TRUE(has(pypi("1.4.5.9"), "~=1.4.5"));
  EXPECT_FALSE(has(pypi("1.5"), "~=1.4.5"));
  EXPECT_TRUE(has(pypi("2.2.post3"), "~=2.2.post3"));
  EXPECT_FALSE(has(pypi("2.2.post2"), "~=2.2.post3"));
  EXPECT_FALSE(has(pypi("1.1.post1"), "==1.1"));
  EXPECT_TRUE(has(pypi("1.1.post1"), "==1.1.post1"));
  EXPECT_TRUE(has(pypi("1.1.post1"), "==1.1.*"));
  EXPECT_TRUE(has(pypi("1.1a1"), "==1.1.*"));
  EXPECT_TRUE(has(pypi("1.1"), "==1.1.0.*"));
  EXPECT_FALSE(has(pypi("1.1.post1"), "!=1.1.post1"));
  EXPECT_FALSE(has(pypi("1.1.post1"), "!=1.1.*"));
  EXPECT_TRUE(has(pypi("1.1+local"), "==1.1"));
  EXPECT_FALSE(has(pypi("1.1"), "==1.1+local"));
  EXPECT_FALSE(has(pypi("1.7.0.post1"), ">1.7"));
  EXPECT_TRUE(has(pypi("1.7.1"), ">1.7"));
  EXPECT_TRUE(has(pypi("1.7.0.post3"), ">1.7.post2"));
  EXPECT_FALSE(has(pypi("1.7+local"), ">1.7"));
  EXPECT_FALSE(has(pypi("3.1.dev0"), "<3.1"));
  EXPECT_TRUE(has(pypi("3.1.dev0"), "<3.1.dev1"));
  EXPECT_TRUE(has(pypi("1.26.4"), ">=1.26,<3"));
  EXPECT_FALSE(has(pypi("3.0"), ">=1.26,<3"));
  EXPECT_TRUE(has(pypi("1.0"), "===1.0"));
}

// Section 11 of Semantic Versioning 2.0.0, and the order of node-semver's test fixtures.
TEST(NpmVersionTest, OrderOfSemver) {
  const char* const ordered[] = {"0.0.0-0",
                                 "0.0.0",
                                 "1.0.0-alpha",
                                 "1.0.0-alpha.1",
                                 "1.0.0-alpha.beta",
                                 "1.0.0-beta",
                                 "1.0.0-beta.2",
                                 "1.0.0-beta.11",
                                 "1.0.0-rc.1",
                                 "1.0.0",
                                 "2.0.0",
                                 "2.1.0",
                                 "2.1.1",
                                 "10.0.0-5.99999999999999999999",
                                 "10.0.0-5.999999999999999999990",
                                 "10.0.0"};
  for (size_t i = 0; i + 1 < std::size(ordered); ++i)
    EXPECT_LT(npm(ordered[i]), npm(ordered[i + 1])) << ordered[i] << " " << ordered[i + 1];
  EXPECT_EQ(npm("1.0.0+20130313144700"), npm("1.0.0"));
  EXPECT_EQ(npm("1.0.0-beta+exp.sha.5114f85").prerelease, std::vector<std::string>{"beta"});
}

TEST(NpmVersionTest, Malformed) {
  for (const char* text : {"", "1", "1.2", "01.2.3", "1.02.3", "1.2.3.4", "1.2.3-", "1.2.3-01",
                           "1.2.3+", "1.2.3-a..b", "v1.2.3", "1.2.3 ", "1.2.3-a/b", "1.2.3+a..b"}) {
    EXPECT_FALSE(NpmVersion::parse(text)) << text;
  }
  EXPECT_EQ(NpmVersion::parsePartial("1.2"), npm("1.2.0"));
}

// The table of ranges of node-semver's documentation.
TEST(NpmVersionTest, Ranges) {
  EXPECT_TRUE(has(npm("1.9.9"), "^1.2.3"));
  EXPECT_FALSE(has(npm("2.0.0-alpha"), "^1.2.3"));
  EXPECT_TRUE(has(npm("0.2.9"), "^0.2.3"));
  EXPECT_FALSE(has(npm("0.3.0"), "^0.2.3"));
  EXPECT_TRUE(has(npm("0.0.3"), "^0.0.3"));
  EXPECT_FALSE(has(npm("0.0.4"), "^0.0.3"));
  EXPECT_TRUE(has(npm("1.2.9"), "~1.2.3"));
  EXPECT_FALSE(has(npm("1.3.0"), "~1.2.3"));
  EXPECT_TRUE(has(npm("1.9.0"), "~1"));
  EXPECT_TRUE(has(npm("4.17.21"), ">=4.17,<5"));
  EXPECT_FALSE(has(npm("5.0.0"), ">=4.17,<5"));
  EXPECT_FALSE(has(npm("1.0.0"), "!=1.0.0"));
  EXPECT_TRUE(has(npm("1.0.0"), "==1.0.0"));
  EXPECT_TRUE(has(npm("2.0.0"), ">1"));
  EXPECT_TRUE(has(npm("1.0.0"), "<=1"));
}

TEST(VersionConditionTest, Forms) {
  EXPECT_FALSE(readConditions(""));
  EXPECT_FALSE(readConditions("1.0"));
  EXPECT_FALSE(readConditions(">=1,"));
  EXPECT_EQ(readConditions(" >= 1 , <2 ")->size(), 2U);
  EXPECT_FALSE(isForPypi({"~=", "1"}));
  EXPECT_FALSE(isForPypi({"^", "1.0"}));
  EXPECT_FALSE(isForPypi({">=", "1.*"}));
  EXPECT_FALSE(isForPypi({">=", "1+local"}));
  EXPECT_FALSE(isForNpm({"~=", "1.0.0"}));
  EXPECT_FALSE(isForNpm({"==", "1.0rc1"}));
}

}  // namespace
}  // namespace cloister::model
