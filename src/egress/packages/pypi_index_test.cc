// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/pypi_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.h"

namespace cloister::egress {
namespace {

using testing::HasSubstr;
using testing::Not;

const std::string kHash(64, 'a');
const UpstreamUrl kBase = *parseUpstreamUrl("https://index.test/simple/demo/");

PypiProject fromJson(const std::string& text) {
  const auto value = base::parseJson(text);
  EXPECT_TRUE(value) << text;
  auto project = readPypiJson(*value, "demo", kBase);
  EXPECT_TRUE(project);
  return project.value_or(PypiProject{});
}
PypiProject fromHtml(const std::string& text) {
  auto project = readPypiHtml(text, "demo", kBase);
  EXPECT_TRUE(project);
  return project.value_or(PypiProject{});
}

std::string file(const std::string& name, const std::string& more) {
  return R"({"filename":")" + name + R"(","url":"../../files/)" + name +
         R"(","hashes":{"sha256":")" + kHash + "\"}" + more + "}";
}

TEST(PypiIndexTest, NamesOfFiles) {
  EXPECT_EQ(readPypiFileName("demo-1.0-py3-none-any.whl", "demo")->version, "1.0");
  EXPECT_EQ(readPypiFileName("De_Mo-1.0-2-cp311-cp311-linux_x86_64.whl", "de-mo")->version, "1.0");
  EXPECT_TRUE(readPypiFileName("de-mo-1.0.tar.gz", "de-mo")->sdist);
  EXPECT_EQ(readPypiFileName("demo-1.0.zip", "demo")->version, "1.0");
  for (const char* name :
       {"other-1.0-py3-none-any.whl", "demo-1.0.whl", "demo-x-py3-none-any.whl", "demo-1.0.exe",
        "../demo-1.0.tar.gz", "demo-1.0.tar.gz/..", "demo-.tar.gz", "demo-1.0-py2.7.egg", "",
        ".demo-1.0.tar.gz", "demo-1.0\r\n.tar.gz"}) {
    EXPECT_FALSE(readPypiFileName(name, "demo")) << name;
  }
}

TEST(PypiIndexTest, ReadsJson) {
  const PypiProject project = fromJson(
      R"({"meta":{"api-version":"1.1"},"name":"demo","files":[)" +
      file("demo-1.0-py3-none-any.whl",
           R"(,"size":5,"upload-time":"2026-01-02T03:04:05.123456Z","requires-python":">=3.8",)"
           R"("yanked":"bad","core-metadata":{"sha256":")" +
               kHash + "\"}") +
      "," + file("demo-1.0.tar.gz", R"(,"yanked":false,"core-metadata":false)") + "," +
      file("other-1.0.tar.gz", "") + R"(,7,{"filename":"demo-2.0.tar.gz"}]})");
  ASSERT_EQ(project.files.size(), 2U);
  const PypiFile& wheel = project.files[0];
  EXPECT_EQ(wheel.url.text(), "https://index.test/files/demo-1.0-py3-none-any.whl");
  EXPECT_EQ(wheel.sha256, kHash);
  EXPECT_EQ(wheel.size, 5U);
  EXPECT_EQ(wheel.requires_python, ">=3.8");
  EXPECT_EQ(wheel.yanked, "bad");
  EXPECT_TRUE(wheel.has_metadata);
  EXPECT_EQ(wheel.metadata_sha256, kHash);
  EXPECT_EQ(wheel.published, base::parseTime("2026-01-02T03:04:05.123456Z"));
  EXPECT_TRUE(project.files[1].sdist);
  EXPECT_FALSE(project.files[1].yanked);
  EXPECT_FALSE(project.files[1].has_metadata);
  EXPECT_FALSE(project.files[1].published);
}

TEST(PypiIndexTest, RefusesOtherDocuments) {
  for (const char* text : {"[]", "{}", R"({"files":{}})", "null"})
    EXPECT_FALSE(readPypiJson(*base::parseJson(text), "demo", kBase)) << text;
}

TEST(PypiIndexTest, ReadsHtml) {
  const PypiProject project = fromHtml(
      "<!DOCTYPE html><html><head><base href=\"/pool/\"></head><body><!-- <a href=x>"
      "demo-9.0.tar.gz</a> -->\n<A HREF='demo-1.0-py3-none-any.whl#sha256=" +
      kHash +
      "' data-requires-python=\"&gt;=3.8\" data-yanked data-core-metadata=\"sha256=" + kHash +
      "\">\n demo-1.0-py3-none-any.whl </A><a href=https://files.test/demo-1.1.tar.gz>"
      "demo-1.1.tar.gz</a><a>demo-1.2.tar.gz</a><a href=\"");
  ASSERT_EQ(project.files.size(), 2U);
  EXPECT_EQ(project.files[0].url.text(), "https://index.test/pool/demo-1.0-py3-none-any.whl");
  EXPECT_EQ(project.files[0].sha256, kHash);
  EXPECT_EQ(project.files[0].requires_python, ">=3.8");
  EXPECT_EQ(project.files[0].yanked, "");
  EXPECT_EQ(project.files[0].metadata_sha256, kHash);
  EXPECT_EQ(project.files[1].url.text(), "https://files.test/demo-1.1.tar.gz");
  EXPECT_FALSE(project.files[1].has_metadata);
}

TEST(PypiIndexTest, OffersRefusedVersionsAsYankedWheels) {
  const PypiProject project = fromJson(
      R"({"files":[)" +
      file("demo-1.0-py3-none-any.whl", R"(,"upload-time":"2020-01-01T00:00:00Z")") + "," +
      file("demo-1.0.tar.gz", R"(,"upload-time":"2020-01-01T00:00:00Z")") + "," +
      file("demo-2.0-cp38-cp38-win32.whl", R"(,"upload-time":"2026-06-29T00:00:00Z")") + "]}");
  const model::PlanPackages packages{.ecosystems = {model::Ecosystem::kPypi},
                                     .rules = {.cooldown_days = 7}};
  const PackageJudge judge(packages, model::Ecosystem::kPypi, "demo",
                           *base::parseTime("2026-06-30T00:00:00Z"));
  const PypiOffer offer = offerOf(project, judge);
  ASSERT_EQ(offer.allowed.size(), 1U);
  EXPECT_EQ(offer.allowed[0]->filename, "demo-1.0-py3-none-any.whl");
  const std::string html = pypiHtml("demo", offer);
  EXPECT_THAT(html, HasSubstr("<a href=\"/files/demo/demo-1.0-py3-none-any.whl#sha256=" + kHash));
  EXPECT_THAT(html,
              HasSubstr("demo-2.0-py3-none-any.whl\" data-yanked=\"packages.cooldown: demo 2.0"));
  EXPECT_THAT(html, HasSubstr("demo-0+refused.by.packages.cooldown-py3-none-any.whl"));
  EXPECT_THAT(html, Not(HasSubstr("tar.gz")));
  EXPECT_THAT(html, Not(HasSubstr("win32")));
  const auto json = base::parseJson(pypiJson("demo", offer));
  ASSERT_TRUE(json);
  const auto& files = json->at("files").as_array();
  ASSERT_EQ(files.size(), 3U);
  EXPECT_EQ(files[0].at("upload-time").as_string(), "2020-01-01T00:00:00.000Z");
  EXPECT_FALSE(files[0].as_object().contains("yanked"));
  EXPECT_TRUE(files[1].at("yanked").is_string());
}

TEST(PypiIndexTest, KeepsUnyankedWheelsWhereNothingRemains) {
  const PypiProject project = fromJson(R"({"files":[)" + file("demo-1.0.tar.gz", "") + "]}");
  const model::PlanPackages packages{.ecosystems = {model::Ecosystem::kPypi}};
  const PackageJudge judge(packages, model::Ecosystem::kPypi, "demo", 0);
  const std::string html = pypiHtml("demo", offerOf(project, judge));
  EXPECT_THAT(html, HasSubstr("demo-1.0-py3-none-any.whl"));
  EXPECT_THAT(html, Not(HasSubstr("yanked")));
  EXPECT_THAT(html, Not(HasSubstr("refused.by")));
}

// A page of ours is read as the same files.
TEST(PypiIndexTest, PagesAreReadAgain) {
  const PypiProject project = fromJson(
      R"({"files":[)" +
      file(
          "demo-1.0-py3-none-any.whl",
          R"(,"requires-python":">=3.8,<4","yanked":"a \"b\" <c>","upload-time":"2020-01-01T00:00:00Z")") +
      "]}");
  const model::PlanPackages packages{.ecosystems = {model::Ecosystem::kPypi}};
  const PackageJudge judge(packages, model::Ecosystem::kPypi, "demo",
                           *base::parseTime("2026-06-30T00:00:00Z"));
  const PypiOffer offer = offerOf(project, judge);
  for (const PypiProject& again :
       {fromHtml(pypiHtml("demo", offer)), fromJson(pypiJson("demo", offer))}) {
    ASSERT_EQ(again.files.size(), 1U);
    EXPECT_EQ(again.files[0].requires_python, ">=3.8,<4");
    EXPECT_EQ(again.files[0].yanked, "a \"b\" <c>");
    EXPECT_EQ(again.files[0].sha256, kHash);
  }
}

TEST(UpstreamUrlTest, ResolvesReferences) {
  const std::pair<const char*, const char*> resolved[] = {
      {"a.whl", "https://index.test/simple/demo/a.whl"},
      {"../../p/a.whl", "https://index.test/p/a.whl"},
      {"../../../../../a", "https://index.test/a"},
      {"/p/./q/../a", "https://index.test/p/a"},
      {"//files.test/a", "https://files.test/a"},
      {"http://files.test:8080/a?b=c#d", "http://files.test:8080/a?b=c"},
      {"https://FILES.test:443", "https://files.test/"},
      {"https://[::1]:8443/a", "https://[::1]:8443/a"},
      {"?x", "https://index.test/simple/demo/?x"}};
  for (const auto& [reference, whole] : resolved) {
    const auto url = resolveUrl(kBase, reference);
    ASSERT_TRUE(url) << reference;
    EXPECT_EQ(url->text(), whole);
  }
  for (const char* reference :
       {"file:///etc/passwd", "ftp://x/", "https://user@x/", "https:///a", "https://x:0/",
        "https://x:70000/", "a b", "a\r\nb", "javascript:x", "https://[::1/", "https://x\\y/"}) {
    EXPECT_FALSE(resolveUrl(kBase, reference)) << reference;
  }
}

TEST(UpstreamUrlTest, DecodesPercents) {
  EXPECT_EQ(percentDecoded("a%2fb%2B"), "a/b+");
  EXPECT_EQ(percentDecoded("%41"), "A");
  for (const char* text : {"%", "%4", "%4g", "%g4"})
    EXPECT_FALSE(percentDecoded(text)) << text;
}

}  // namespace
}  // namespace cloister::egress
