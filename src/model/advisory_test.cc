// SPDX-License-Identifier: Apache-2.0
#include "model/advisory.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/id.h"

namespace cloister::model {
namespace {

using testing::HasSubstr;

std::string record(const std::string& affected, const std::string& rest = "") {
  return R"({"id":"GHSA-1","summary":"bad things","affected":[)" + affected + "]" + rest + "}";
}

std::string package(const std::string& ecosystem, const std::string& name,
                    const std::string& rest) {
  return R"({"package":{"ecosystem":")" + ecosystem + R"(","name":")" + name + "\"}" + rest + "}";
}

std::string range(const std::string& events, const std::string& type = "ECOSYSTEM") {
  return R"(,"ranges":[{"type":")" + type + R"(","events":[)" + events + "]}]";
}

Advisories of(const std::string& text) {
  auto advisory = parseAdvisory(text);
  EXPECT_TRUE(advisory) << advisory.error().message;
  EXPECT_TRUE(*advisory);
  return Advisories({std::make_shared<const Advisory>(**advisory)});
}

TEST(Advisories, RangesEndBeforeTheFix) {
  const Advisories all =
      of(record(package("PyPI", "Demo_Lib", range(R"({"introduced":"1.2"},{"fixed":"1.4.1"})"))));
  const auto has = [&](const char* version) {
    return all.find(Ecosystem::kPypi, "demo-lib", version).has_value();
  };
  EXPECT_FALSE(has("1.1"));
  EXPECT_TRUE(has("1.2"));
  EXPECT_TRUE(has("1.4.1rc1"));
  EXPECT_FALSE(has("1.4.1"));
  EXPECT_FALSE(has("2.0"));
  EXPECT_FALSE(all.find(Ecosystem::kNpm, "demo-lib", "1.2"));
  EXPECT_FALSE(all.find(Ecosystem::kPypi, "demo", "1.2"));
  const auto hit = all.find(Ecosystem::kPypi, "demo.lib", "1.3");
  ASSERT_TRUE(hit);
  EXPECT_EQ(hit->id, "GHSA-1");
  EXPECT_EQ(hit->summary, "bad things");
  EXPECT_EQ(hit->fixed, "1.4.1");
}

TEST(Advisories, AVersionMayBecomeAffectedAgain) {
  const Advisories all =
      of(record(package("npm", "@s/demo",
                        range(R"({"fixed":"1.1.0"},{"introduced":"2.0.0"},{"introduced":"0"},)"
                              R"({"last_affected":"2.3.0"})",
                              "SEMVER"))));
  const auto has = [&](const char* version) {
    return all.find(Ecosystem::kNpm, "@s/demo", version).has_value();
  };
  EXPECT_TRUE(has("0.0.1"));
  EXPECT_FALSE(has("1.1.0"));
  EXPECT_TRUE(has("2.3.0"));
  EXPECT_FALSE(has("2.3.1"));
}

TEST(Advisories, ListedVersionsAreAffected) {
  const Advisories all = of(record(package("PyPI", "demo", R"(,"versions":["1.0"])")));
  EXPECT_TRUE(all.find(Ecosystem::kPypi, "demo", "1.0.0"));
  EXPECT_FALSE(all.find(Ecosystem::kPypi, "demo", "1.0.1"));
}

TEST(Advisories, DoubtIsAffected) {
  EXPECT_TRUE(of(record(package("PyPI", "demo", ""))).find(Ecosystem::kPypi, "demo", "7"));
  const Advisories odd =
      of(record(package("PyPI", "demo", range(R"({"introduced":"what"},{"fixed":"1"})"))));
  EXPECT_TRUE(odd.find(Ecosystem::kPypi, "demo", "7"));
  const Advisories sound =
      of(record(package("PyPI", "demo", range(R"({"introduced":"1"},{"fixed":"2"})"))));
  EXPECT_TRUE(sound.find(Ecosystem::kPypi, "demo", "not a version"));
}

TEST(Advisories, OtherRecordsArePassedOver) {
  EXPECT_EQ(parseAdvisory(record("", R"(,"withdrawn":"2026-01-01T00:00:00Z")"))->has_value(),
            false);
  EXPECT_TRUE((*parseAdvisory(record(package("Go", "demo", ""))))->affected.empty());
  const auto git = parseAdvisory(record(
      package("PyPI", "demo", range(R"({"introduced":"0"})", "GIT") + R"(,"versions":["1"])")));
  EXPECT_TRUE((*git)->affected[0].ranges.empty());
  for (const char* bad : {"[]", "{}", R"({"id":"x","affected":{}})",
                          R"({"id":"x","affected":[{"package":{"ecosystem":"npm"}}]})", "{"}) {
    EXPECT_FALSE(parseAdvisory(bad)) << bad;
  }
}

class Folder : public testing::Test {
 protected:
  Folder() : path_("/tmp/cloister-test-" + base::randomHex(8)) {
    std::filesystem::create_directory(path_);
  }
  ~Folder() override { std::filesystem::remove_all(path_); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ + "/" + name) << text;
  }
  std::string path_;
};

TEST_F(Folder, IsReadAgainWhenItChanges) {
  AdvisoryFolder folder(path_, Millis(0));
  ASSERT_TRUE(folder.now());
  EXPECT_EQ((*folder.now())->size(), 0U);
  write("a.json", record(package("PyPI", "demo", "")));
  write("README.md", "no record");
  const auto with = *folder.now();
  EXPECT_EQ(with->size(), 1U);
  EXPECT_EQ(*folder.now(), with);  // the same while nothing changes
  write("b.json", "{");
  const auto broken = folder.now();
  ASSERT_FALSE(broken);
  EXPECT_THAT(broken.error().message, HasSubstr("packages.advisories: "));
  EXPECT_THAT(broken.error().message, HasSubstr("/b.json: parsing JSON"));
  std::filesystem::remove(path_ + "/b.json");
  EXPECT_EQ((*folder.now())->size(), 1U);
  std::filesystem::remove(path_ + "/a.json");
  EXPECT_EQ((*folder.now())->size(), 0U);
}

TEST_F(Folder, IsLookedAtNoMoreThanSoOften) {
  AdvisoryFolder folder(path_, std::chrono::hours(1));
  EXPECT_EQ((*folder.now())->size(), 0U);
  write("a.json", record(package("PyPI", "demo", "")));
  EXPECT_EQ((*folder.now())->size(), 0U);
}

TEST_F(Folder, MustBeThere) {
  std::filesystem::remove_all(path_);
  AdvisoryFolder folder(path_, Millis(0));
  EXPECT_FALSE(folder.now());
}

TEST(Advisories, OfDebianAreOfAReleaseAndInDpkgsOrder) {
  const Advisories all = of(record(
      package("Debian:12", "openssl", range(R"({"introduced":"0"},{"fixed":"3.0.11-1~deb12u2"})")) +
      "," + package("Debian:13", "openssl", range(R"({"introduced":"0"},{"fixed":"3.5.1-1"})"))));
  const auto has = [&](std::string_view version, std::string_view release) {
    return !all.findAll({.ecosystem = AdvisoryEcosystem::kDebian,
                         .name = "openssl",
                         .version = version,
                         .release = release})
                .empty();
  };
  EXPECT_TRUE(has("3.0.11-1~deb12u1", "12"));
  EXPECT_FALSE(has("3.0.11-1~deb12u2", "12"));
  EXPECT_FALSE(has("1:0.1", "12"));
  EXPECT_TRUE(has("3.0.11-1~deb12u2", "13"));
  EXPECT_TRUE(has("3.0.11-1~deb12u2", "")) << "an unknown release is every release";
  EXPECT_FALSE(has("3.0.11-1~deb12u1", "11"));
  EXPECT_TRUE(has("not a version", "12"));
  EXPECT_FALSE(all.find(Ecosystem::kNpm, "openssl", "3.0.11"));
}

TEST(Advisories, HaveTheHighestSeverityOfTheRecord) {
  const auto severity = [](const std::string& rest, const std::string& of_package = "") {
    const auto read = parseAdvisory(record(package("npm", "x", of_package), rest));
    EXPECT_TRUE(read && *read) << rest;
    return (*read)->severity;
  };
  EXPECT_EQ(severity(""), std::nullopt);
  EXPECT_EQ(severity(R"(,"database_specific":{"severity":"MODERATE"})"), Severity::kMedium);
  EXPECT_EQ(severity(R"(,"severity":[{"type":"CVSS_V3",
      "score":"CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:H/A:H"}],
      "database_specific":{"severity":"LOW"})"),
            Severity::kCritical);
  EXPECT_EQ(severity(R"(,"severity":[{"type":"CVSS_V4","score":"CVSS:4.0/AV:N"}])"), std::nullopt);
  EXPECT_EQ(severity("", R"(,"ecosystem_specific":{"urgency":"high"})"), Severity::kHigh);
  EXPECT_EQ(
      severity("", R"(,"severity":[{"score":"CVSS:3.1/AV:P/AC:H/PR:H/UI:R/S:U/C:L/I:N/A:N"}])"),
      Severity::kLow);
  EXPECT_FALSE(parseAdvisory(record("", R"(,"severity":{})")));
  const auto aliases = parseAdvisory(record(package("npm", "x", ""), R"(,"aliases":["CVE-1"])"));
  EXPECT_EQ((*aliases)->aliases, std::vector<std::string>{"CVE-1"});
}

}  // namespace
}  // namespace cloister::model
