// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/npm_packument.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace cloister::egress {
namespace {

namespace json = base::json;
using model::Ecosystem;

const UpstreamUrl kBase = *parseUpstreamUrl("https://registry.test/demo");
const int64_t kNow = *base::parseTime("2026-06-30T00:00:00Z");

constexpr std::string_view kDocument = R"({
  "name": "demo", "dist-tags": {"latest": "2.0.0", "beta": "2.1.0-beta.1", "old": "1.0.0"},
  "time": {"created": "2019-01-01T00:00:00Z", "1.0.0": "2020-01-01T00:00:00.000Z",
           "1.1.0": "2021-01-01T00:00:00Z", "2.0.0": "2026-06-29T00:00:00Z"},
  "readme": "long",
  "versions": {
    "1.0.0": {"name": "demo", "version": "1.0.0", "dependencies": {"a": "^1"}, "description": "d",
              "readme": "long", "dist": {"tarball": "https://registry.test/demo/-/demo-1.0.0.tgz",
              "integrity": "sha512-AAAA", "shasum": "00"}},
    "1.1.0": {"dist": {"tarball": "/demo/-/demo-1.1.0.tgz"}, "scripts": {"postinstall": "x"}},
    "2.0.0": {"dist": {"tarball": "https://registry.test/demo/-/demo-2.0.0.tgz"}},
    "2.1.0-beta.1": {"dist": {"tarball": "https://registry.test/x.tgz"}},
    "bad": {"dist": {"tarball": "https://registry.test/x.tgz"}},
    "3.0.0": {"dist": {"tarball": "file:///etc/passwd"}},
    "4.0.0": 7}})";

NpmPackage demo() {
  auto package = readPackument(*base::parseJson(kDocument), "demo", kBase);
  EXPECT_TRUE(package);
  return package.value_or(NpmPackage{});
}

TEST(NpmPackumentTest, ReadsTheUsefulMembers) {
  const NpmPackage package = demo();
  ASSERT_EQ(package.releases.size(), 4U);
  const NpmRelease* first = package.find("1.0.0");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->tarball.text(), "https://registry.test/demo/-/demo-1.0.0.tgz");
  EXPECT_EQ(first->integrity, "sha512-AAAA");
  EXPECT_EQ(first->published, base::parseTime("2020-01-01T00:00:00Z"));
  EXPECT_FALSE(first->manifest.contains("readme"));
  EXPECT_TRUE(package.find("1.1.0")->scripts);
  EXPECT_EQ(package.find("1.1.0")->tarball.text(), "https://registry.test/demo/-/demo-1.1.0.tgz");
  EXPECT_FALSE(package.find("2.1.0-beta.1")->published);
}

TEST(NpmPackumentTest, RefusesOtherDocuments) {
  for (const char* text : {"{}", "[]", R"({"name":"demo"})", R"({"name":"other","versions":{}})",
                           R"({"name":"demo","versions":[]})"}) {
    EXPECT_FALSE(readPackument(*base::parseJson(text), "demo", kBase)) << text;
  }
}

TEST(NpmPackumentTest, OffersWhatTheRulesLeave) {
  const NpmPackage package = demo();
  const model::PlanPackages packages{.ecosystems = {Ecosystem::kNpm},
                                     .rules = {.cooldown_days = 7}};
  const NpmOffer offer = offerOf(package, PackageJudge(packages, Ecosystem::kNpm, "demo", kNow));
  ASSERT_EQ(offer.allowed.size(), 1U);
  EXPECT_EQ(offer.tags.at("latest"), "1.0.0");
  EXPECT_EQ(offer.tags.at("old"), "1.0.0");
  EXPECT_FALSE(offer.tags.contains("beta"));
  const auto whole = *base::parseJson(packument(package, offer, true));
  const auto& one = whole.at("versions").at("1.0.0");
  EXPECT_EQ(one.at("dist").at("tarball").as_string(),
            "http://npm.cloister.internal/demo/-/demo-1.0.0.tgz");
  EXPECT_EQ(one.at("description").as_string(), "d");
  EXPECT_EQ(whole.at("time").at("1.0.0").as_string(), "2020-01-01T00:00:00.000Z");
  const auto& refused = whole.at("versions").at("2.0.0");
  EXPECT_TRUE(refused.at("deprecated").as_string().starts_with("refused by packages.cooldown"));
  EXPECT_EQ(refused.at("engines").at("node").as_string(), "<0");
  EXPECT_TRUE(std::string(whole.at("versions").at("1.1.0").at("deprecated").as_string())
                  .contains("packages.scripts"));
  const auto brief = *base::parseJson(packument(package, offer, false));
  EXPECT_FALSE(brief.as_object().contains("time"));
  EXPECT_FALSE(brief.at("versions").at("1.0.0").as_object().contains("description"));
  EXPECT_TRUE(brief.at("versions").at("1.0.0").as_object().contains("dependencies"));
}

TEST(NpmPackumentTest, NamesOfTarballs) {
  EXPECT_EQ(tarballName("@scope/demo", "1.0.0"), "demo-1.0.0.tgz");
  EXPECT_EQ(versionOfTarball("@scope/demo", "demo-1.0.0-rc.1.tgz"), "1.0.0-rc.1");
  for (const char* name : {"demo-.tgz", "demo.tgz", "other-1.0.0.tgz", "demo-1.0.0.tar",
                           "demo-1.0.tgz", "demo-../1.0.0.tgz"}) {
    EXPECT_EQ(versionOfTarball("demo", name), "") << name;
  }
}

}  // namespace
}  // namespace cloister::egress
