// SPDX-License-Identifier: Apache-2.0
#include "model/debian_version.h"

#include <gtest/gtest.h>

#include "model/severity.h"

namespace cloister::model {
namespace {

TEST(DebianVersion, HasDpkgsOrder) {
  // Each is earlier than the next.
  const char* ordered[] = {"1.0~~",         "1.0~~a",    "1.0~",
                           "1.0~rc1-1",     "1.0",       "1.0-0+deb12u1",
                           "1.0-1~bpo12+1", "1.0-1",     "1.0-1+b1",
                           "1.0-1.1",       "1.0-2",     "1.0-10",
                           "1.0a-1",        "1.0a1",     "1.0+dfsg-1",
                           "1.0.1-1",       "1.2.3-1-1", "1.9",
                           "1.10",          "2.0-01a",   "3.0.11-1~deb12u2",
                           "3.0.11-1",      "10",        "1:0.1",
                           "1:0.1-a",       "1:0.1-a+",  "2:0"};
  for (size_t i = 0; i < std::size(ordered); ++i) {
    for (size_t j = 0; j < std::size(ordered); ++j) {
      const auto a = DebianVersion::parse(ordered[i]);
      const auto b = DebianVersion::parse(ordered[j]);
      ASSERT_TRUE(a && b) << ordered[i] << " " << ordered[j];
      EXPECT_EQ(*a <=> *b, i <=> j) << ordered[i] << " " << ordered[j];
    }
  }
  for (const auto& [a, b] : {std::pair{"1.0", "1.0-0"}, {"0:1.0", "1.0"}, {"1.00", "1.0"}})
    EXPECT_EQ(*DebianVersion::parse(a), *DebianVersion::parse(b)) << a;
}

TEST(DebianVersion, RefusesWhatIsNone) {
  for (const char* bad :
       {"", "a:1", ":1", "1:", "1-", "-1", "1.0 ", "1/2", "1.0-1_2", "99999999999999999999999:1"}) {
    EXPECT_FALSE(DebianVersion::parse(bad)) << bad;
  }
  EXPECT_FALSE(DebianVersion::parse(std::string(300, '1')));
}

TEST(Severity, IsRatedAsTheSpecificationSays) {
  const std::pair<const char*, double> cases[] = {
      {"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H", 9.8},
      {"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:C/C:H/I:H/A:H", 10.0},
      {"CVSS:3.0/AV:N/AC:L/PR:N/UI:R/S:C/C:L/I:L/A:N", 6.1},
      {"CVSS:3.1/AV:L/AC:L/PR:L/UI:N/S:U/C:H/I:H/A:H", 7.8},
      {"CVSS:3.1/AV:N/AC:H/PR:N/UI:N/S:U/C:N/I:N/A:H/E:P", 5.9},
      {"CVSS:3.1/AV:N/AC:L/PR:L/UI:N/S:C/C:H/I:H/A:N", 9.6},
      {"CVSS:3.1/AV:P/AC:H/PR:H/UI:R/S:U/C:L/I:N/A:N", 1.6},
      {"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N", 0.0},
  };
  for (const auto& [vector, score] : cases) {
    ASSERT_TRUE(cvssScore(vector)) << vector;
    EXPECT_DOUBLE_EQ(*cvssScore(vector), score) << vector;
  }
  EXPECT_EQ(severityFromCvss(cases[0].first), Severity::kCritical);
  EXPECT_EQ(severityFromCvss(cases[3].first), Severity::kHigh);
  EXPECT_EQ(severityFromCvss(cases[4].first), Severity::kMedium);
  EXPECT_EQ(severityFromCvss(cases[6].first), Severity::kLow);
  EXPECT_EQ(severityFromWord("MODERATE"), Severity::kMedium);
  EXPECT_EQ(severityFromWord("unimportant"), Severity::kLow);
  EXPECT_FALSE(severityFromWord("not yet assigned"));
  for (const char* bad : {"", "CVSS:4.0/AV:N", "CVSS:3.1/AV:N", "AV:N/AC:L/Au:N/C:P/I:P/A:P",
                          "CVSS:3.1/AV:X/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H",
                          "CVSS:3.1/AV:N/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"}) {
    EXPECT_FALSE(cvssScore(bad)) << bad;
  }
}

}  // namespace
}  // namespace cloister::model
