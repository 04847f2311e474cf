// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/judgement.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace cloister::egress {
namespace {

using model::Ecosystem;

constexpr int64_t kDay = int64_t{86'400} * 1'000'000;
const int64_t kNow = *base::parseTime("2026-06-30T12:00:00Z");
const std::string kHash(64, 'a');

class JudgementTest : public testing::Test {
 protected:
  // The refusing rule; "" if the version is allowed.
  std::string judged(Candidate candidate, std::string_view name = "demo",
                     Ecosystem ecosystem = Ecosystem::kPypi) const {
    const PackageJudge judge(packages, ecosystem, name, kNow);
    const auto refusal = judge.judge(candidate);
    if (!refusal) return "";
    EXPECT_FALSE(refusal->reason.empty());
    EXPECT_FALSE(refusal->remedy.empty());
    EXPECT_EQ(recordRule(refusal->rule).rule, packageRuleName(refusal->rule));
    return std::string(packageRuleName(refusal->rule));
  }
  static Candidate old(std::string_view version = "1.0") {
    return {.version = version, .published = kNow - 1000 * kDay};
  }

  model::PlanPackages packages{.ecosystems = {Ecosystem::kPypi, Ecosystem::kNpm}};
};

TEST_F(JudgementTest, AllowsAnOldDatedWheelByDefault) {
  EXPECT_EQ(judged(old()), "");
}

TEST_F(JudgementTest, RefusesAVersionWithoutADate) {
  EXPECT_EQ(judged({.version = "1.0"}), "packages.undated");
  packages.rules.undated_allowed = true;
  EXPECT_EQ(judged({.version = "1.0"}), "");
  packages.cutoff = "2026-01-01T00:00:00Z";
  EXPECT_EQ(judged({.version = "1.0"}), "packages.undated");
}

TEST_F(JudgementTest, RefusesAnAdvisedVersion) {
  const auto record = model::parseAdvisory(
      R"({"id":"GHSA-7","affected":[{"package":{"ecosystem":"PyPI","name":"Demo"},)"
      R"("ranges":[{"type":"ECOSYSTEM","events":[{"introduced":"0"},{"fixed":"1.5"}]}]}]})");
  const auto all = std::make_shared<const model::Advisories>(
      std::vector{std::make_shared<const model::Advisory>(**record)});
  const auto judged = [&](std::string_view version,
                          Result<std::shared_ptr<const model::Advisories>> advisories) {
    return PackageJudge(packages, Ecosystem::kPypi, "demo", kNow, std::move(advisories))
        .judge(old(version));
  };
  const auto refusal = judged("1.0", all);
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->text(), "packages.advisories: demo 1.0 has the advisory GHSA-7");
  EXPECT_NE(refusal->remedy.find("1.5"), std::string::npos);
  EXPECT_FALSE(judged("1.5", all));
  EXPECT_FALSE(judged("1.0", nullptr));
  const auto unread = judged("1.5", fail(Code::kInvalid, "a file is broken"));
  ASSERT_TRUE(unread);
  EXPECT_EQ(packageRuleName(unread->rule), "packages.advisories");
}

TEST_F(JudgementTest, RefusesDuringTheCooldown) {
  packages.rules.cooldown_days = 7;
  EXPECT_EQ(judged({.version = "1.0", .published = kNow - 7 * kDay + 1}), "packages.cooldown");
  EXPECT_EQ(judged({.version = "1.0", .published = kNow - 7 * kDay}), "");
  EXPECT_EQ(judged({.version = "1.0", .published = kNow + kDay}), "packages.cooldown");
}

TEST_F(JudgementTest, RefusesBehindTheCutoff) {
  packages.cutoff = "2026-06-01T00:00:00Z";
  EXPECT_EQ(judged({.version = "1.0", .published = kNow}), "packages.cutoff");
  EXPECT_EQ(judged(old()), "");
}

TEST_F(JudgementTest, DeniesByNameAndVersion) {
  packages.rules.deny = {"Demo>=2", "evil-*"};
  EXPECT_EQ(judged(old("2.0")), "packages.deny");
  EXPECT_EQ(judged(old("1.9")), "");
  EXPECT_EQ(judged(old(), "evil-twin"), "packages.deny");
  EXPECT_TRUE(PackageJudge(packages, Ecosystem::kPypi, "evil-twin", kNow).name());
  EXPECT_FALSE(PackageJudge(packages, Ecosystem::kPypi, "demo", kNow).name());
}

TEST_F(JudgementTest, DenyIsStrongerThanAllow) {
  packages.rules.allow = {"demo"};
  packages.rules.deny = {"demo==1.0"};
  EXPECT_EQ(judged(old("1.0")), "packages.deny");
  EXPECT_EQ(judged(old("1.1")), "");
}

TEST_F(JudgementTest, NamesOffTheListAreRefusedWithTheNearest) {
  packages.rules.allow = {"requests", "numpy>=1.26,<3"};
  const PackageJudge judge(packages, Ecosystem::kPypi, "reqeusts", kNow);
  const auto refusal = judge.name();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->rule, PackageRule::kAllow);
  EXPECT_TRUE(refusal->reason.contains("did you mean requests?")) << refusal->reason;
  EXPECT_EQ(judged(old("1.25"), "numpy"), "packages.allow");
  EXPECT_EQ(judged(old("1.26.4"), "numpy"), "");
}

TEST_F(JudgementTest, AnItemOfOneEcosystemIsNotOfTheOther) {
  packages.rules.allow = {"npm:left-pad", "pypi:numpy"};
  EXPECT_EQ(judged(old("1.0.0"), "left-pad", Ecosystem::kNpm), "");
  EXPECT_EQ(judged(old("1.0.0"), "left-pad"), "packages.allow");
  EXPECT_EQ(judged(old("1.0.0"), "numpy", Ecosystem::kNpm), "packages.allow");
}

TEST_F(JudgementTest, SourceDistributionsAndScripts) {
  Candidate sdist = old();
  sdist.sdist = true;
  EXPECT_EQ(judged(sdist), "packages.sdists");
  packages.rules.sdists_allowed = true;
  EXPECT_EQ(judged(sdist), "");
  Candidate scripted = old("1.0.0");
  scripted.scripts = true;
  EXPECT_EQ(judged(scripted, "demo", Ecosystem::kNpm), "packages.scripts");
  packages.rules.scripts_allowed = true;
  EXPECT_EQ(judged(scripted, "demo", Ecosystem::kNpm), "");
}

TEST_F(JudgementTest, SizeAndPins) {
  packages.rules.max_bytes = 10;
  Candidate candidate = old();
  candidate.size = 11;
  EXPECT_EQ(judged(candidate), "packages.max_bytes");
  candidate.size = 10;
  EXPECT_EQ(judged(candidate), "");
  packages.rules.pins = {"demo==1.0 sha256:" + kHash};
  candidate.sha256 = kHash;
  EXPECT_EQ(judged(candidate), "");
  const std::string other(64, 'b');
  candidate.sha256 = other;
  EXPECT_EQ(judged(candidate), "packages.pins");
  candidate.version = "1.1";
  EXPECT_EQ(judged(candidate), "");
}

TEST_F(JudgementTest, HostileTextsStayInOneLine) {
  packages.rules.deny = {"demo"};
  const PackageJudge judge(packages, Ecosystem::kPypi, "demo", kNow);
  const auto refusal = judge.judge(old("1.0\r\nX: y"));
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->text().find_first_of("\r\n"), std::string::npos);
}

}  // namespace
}  // namespace cloister::egress
