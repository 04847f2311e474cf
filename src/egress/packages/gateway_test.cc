// SPDX-License-Identifier: Apache-2.0
#include "egress/packages/gateway.h"

#include "base/crypto.h"
#include "base/json.h"
#include "egress/packages/gateway_testing.h"
#include "egress/packages/packed_testing.h"

namespace cloister::egress {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kOld = "2020-01-01T00:00:00Z";
constexpr const char* kJsonPage = "application/vnd.pypi.simple.v1+json";

class PypiGatewayTest : public GatewayTest {
 protected:
  // A file of the index, with its content.
  void put(const std::string& name, const std::string& content, const std::string& more = "",
           const std::string& sha256 = "") {
    answers["/files/" + name] = {.type = "application/octet-stream", .body = content};
    files_ += (files_.empty() ? "" : ",") + std::string(R"({"filename":")") + name +
              R"(","url":"../../files/)" + name + R"(","hashes":{"sha256":")" +
              (sha256.empty() ? base::sha256Hex(content) : sha256) + R"("},"upload-time":")" +
              kOld + "\"" + more + "}";
    answers["/simple/demo/"] = {.type = kJsonPage,
                                .body = R"({"name":"demo","files":[)" + files_ + "]}"};
  }
  static constexpr const char* kWheel = "demo-1.0-py3-none-any.whl";

 private:
  std::string files_;
};

TEST_F(PypiGatewayTest, ServesAnIndexAndItsFile) {
  put(kWheel, "wheel");
  GatewayAnswer page = pypi("/simple/demo/", kJsonPage);
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.type, kJsonPage);
  EXPECT_THAT(page.body, HasSubstr("/files/demo/demo-1.0-py3-none-any.whl"));
  EXPECT_EQ(pypi("/simple/demo/", "text/html").type, "text/html; charset=utf-8");
  GatewayAnswer file = pypi("/files/demo/demo-1.0-py3-none-any.whl");
  EXPECT_EQ(file.status, 200);
  EXPECT_EQ(whole(file), std::pair(std::string("wheel"), true));
  EXPECT_EQ(asked.size(), 2U) << "one index for all three";
  EXPECT_THAT(asked[0], HasSubstr("Accept: application/vnd.pypi.simple.v1+json"));
  EXPECT_THAT(asked[0], Not(HasSubstr("Accept-Encoding")));
}

TEST_F(PypiGatewayTest, OtherSpellingsAreRedirected) {
  for (const char* path : {"/simple/De_Mo/", "/simple/de-mo"}) {
    const GatewayAnswer answer = pypi(path);
    EXPECT_EQ(answer.status, 301);
    EXPECT_EQ(answer.location, "/simple/de-mo/");
  }
}

TEST_F(PypiGatewayTest, SmuggledNamesAskNobody) {
  for (const char* path :
       {"/simple/..%2f..%2fetc/", "/simple/../x/", "/simple/a%2fb/", "/simple/%2e%2e/",
        "/simple/a%00/", "/simple/a%0d%0aX/", "/simple/%/", "/files/demo/..%2f..%2fx.whl",
        "/files/demo/x", "//simple/a/", "/", "/simple/", "/simple/a/b/c/", "/simple/a%252fb/"}) {
    const GatewayAnswer answer = pypi(path);
    EXPECT_TRUE(answer.status == 400 || answer.status == 404) << path << " " << answer.status;
  }
  for (const std::string& head : asked)
    EXPECT_THAT(head, testing::StartsWith("GET /simple/demo/ "));
  EXPECT_EQ(get(model::Ecosystem::kPypi, "/simple/demo/", "", "POST").status, 405);
}

TEST_F(PypiGatewayTest, CredentialsGoToTheIndexAlone) {
  options.authorization = "Basic c2VjcmV0";
  options.file_hosts = {"files.test"};
  answers["/simple/demo/"] = {
      .type = kJsonPage,
      .body = R"({"files":[{"filename":"demo-1.0-py3-none-any.whl","url":"https://files.test/x",)"
              R"("upload-time":"2020-01-01T00:00:00Z"}]})"};
  EXPECT_EQ(pypi("/files/demo/demo-1.0-py3-none-any.whl").status, 502);
  EXPECT_THAT(asked[0], HasSubstr("Authorization: Basic c2VjcmV0\r\n"));
  EXPECT_THAT(dialled, testing::ElementsAre(origin().substr(7) + " own", "files.test:443"));
}

TEST_F(PypiGatewayTest, RedirectsStayAtTheIndex) {
  answers["/simple/demo/"] = {.head = "HTTP/1.1 302 Found\r\n", .more = "Location: /other/\r\n"};
  answers["/other/"] = {.type = kJsonPage, .body = R"({"files":[]})"};
  EXPECT_EQ(pypi("/simple/demo/").status, 200);
  for (const std::string to :
       {"http://169.254.169.254/latest/meta-data/", "https://127.0.0.1/",
        "//metadata.google.internal/", "file:///etc/passwd", "http://files.test/"}) {
    answers["/simple/other/"] = {.head = "HTTP/1.1 302 Found\r\n",
                                 .more = "Location: " + to + "\r\n"};
    dialled.clear();
    EXPECT_EQ(pypi("/simple/other/").status, 502) << to;
    EXPECT_EQ(dialled.size(), 1U) << to;
  }
  answers["/simple/loop/"] = {.head = "HTTP/1.1 301 Moved\r\n",
                              .more = "Location: /simple/loop/\r\n"};
  dialled.clear();
  EXPECT_EQ(pypi("/simple/loop/").status, 502);
  EXPECT_LE(dialled.size(), 6U);
}

TEST_F(PypiGatewayTest, FilesOfOtherHostsAreNotFetched) {
  options.file_hosts = {"files.test"};
  for (const char* url : {"http://169.254.169.254/x", "https://evil.test/x", "http://files.test/x",
                          "https://files.test:8443/x"}) {
    answers["/simple/demo/"] = {
        .type = kJsonPage,
        .body = std::string(R"({"files":[{"filename":"demo-1.0-py3-none-any.whl","url":")") + url +
                R"(","upload-time":"2020-01-01T00:00:00Z"}]})"};
    start();
    dialled.clear();
    EXPECT_EQ(pypi("/files/demo/demo-1.0-py3-none-any.whl").status, 502) << url;
    EXPECT_EQ(dialled.size(), 1U) << url;
  }
}

TEST_F(PypiGatewayTest, ANameOffTheListAsksNobody) {
  packages.rules.allow = {"requests"};
  const GatewayAnswer page = pypi("/simple/requets/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(ruleOf(page), "packages.allow");
  EXPECT_THAT(page.body, HasSubstr("requets-0%2Brefused.by.packages.allow-py3-none-any.whl"));
  const GatewayAnswer file =
      pypi("/files/requets/requets-0%2Brefused.by.packages.allow-py3-none-any.whl");
  EXPECT_EQ(file.status, 403);
  EXPECT_THAT(file.reason, testing::StartsWith("packages.allow: requets is not on the list"));
  EXPECT_THAT(file.reason, HasSubstr("did you mean requests?"));
  EXPECT_TRUE(asked.empty());
}

TEST_F(PypiGatewayTest, ARefusedVersionAnswersWithItsRule) {
  put("demo-1.0.tar.gz", "sdist");
  EXPECT_EQ(ruleOf(pypi("/simple/demo/")), "packages.sdists");
  for (const char* name : {"demo-1.0-py3-none-any.whl", "demo-1.0.tar.gz"}) {
    const GatewayAnswer file = pypi(std::string("/files/demo/") + name);
    EXPECT_EQ(file.status, 403) << name;
    EXPECT_EQ(ruleOf(file), "packages.sdists");
    EXPECT_THAT(file.reason, testing::StartsWith("packages.sdists: demo 1.0 is a source"));
  }
  EXPECT_EQ(pypi("/files/demo/demo-2.0-py3-none-any.whl").status, 404);
  EXPECT_EQ(asked.size(), 1U);
}

TEST_F(PypiGatewayTest, AFileWithAnotherContentIsRefused) {
  put(kWheel, "tampered", "", base::sha256Hex("good"));
  const GatewayAnswer file = pypi(std::string("/files/demo/") + kWheel);
  EXPECT_EQ(file.status, 403);
  EXPECT_EQ(ruleOf(file), "packages.hash");
  EXPECT_TRUE(file.body.find("tampered") == std::string::npos);
}

TEST_F(PypiGatewayTest, ALargeFileIsCutBeforeItsEndAndThenRefused) {
  bounds.held_file = 10;
  const std::string content(300'000, 'x');
  put(kWheel, content, "", base::sha256Hex("good"));
  GatewayAnswer file = pypi(std::string("/files/demo/") + kWheel);
  EXPECT_EQ(file.status, 200);
  const auto [got, complete] = whole(file);
  EXPECT_FALSE(complete);
  EXPECT_LT(got.size(), content.size());
  EXPECT_TRUE(file.file->refusal());
  EXPECT_EQ(ruleOf(pypi(std::string("/files/demo/") + kWheel)), "packages.hash") << "a retry";
}

TEST_F(PypiGatewayTest, ALargeFileStreamsWhole) {
  bounds.held_file = 10;
  const std::string content(300'000, 'x');
  put(kWheel, content);
  GatewayAnswer file = pypi(std::string("/files/demo/") + kWheel);
  EXPECT_EQ(file.file->length(), content.size());
  EXPECT_EQ(whole(file), std::pair(content, true));
}

TEST_F(PypiGatewayTest, PinsAndSizesHoldForTheContentToo) {
  put(kWheel, "wheel");
  packages.rules.pins = {"demo==1.0 sha256:" + base::sha256Hex("wheel")};
  EXPECT_EQ(pypi(std::string("/files/demo/") + kWheel).status, 200);
  packages.rules.pins = {"demo==1.0 sha256:" + base::sha256Hex("other")};
  EXPECT_EQ(ruleOf(pypi(std::string("/files/demo/") + kWheel)), "packages.pins");
  packages.rules = {.max_bytes = 4};
  EXPECT_EQ(ruleOf(pypi(std::string("/files/demo/") + kWheel)), "packages.max_bytes");
  answers["/files/" + std::string(kWheel)].length = false;
  EXPECT_EQ(ruleOf(pypi(std::string("/files/demo/") + kWheel)), "");
  GatewayAnswer file = pypi(std::string("/files/demo/") + kWheel);
  EXPECT_FALSE(whole(file).second);
}

TEST_F(PypiGatewayTest, ACutFileIsNotWhole) {
  put(kWheel, std::string(1000, 'x'));
  answers["/files/" + std::string(kWheel)].cut = 500;
  EXPECT_EQ(pypi(std::string("/files/demo/") + kWheel).status, 502);
}

TEST_F(PypiGatewayTest, MetadataIsServedAndVerified) {
  put(kWheel, "wheel", R"(,"core-metadata":{"sha256":")" + base::sha256Hex("Name: demo") + "\"}");
  answers["/files/" + std::string(kWheel) + ".metadata"] = {.body = "Name: demo"};
  EXPECT_EQ(pypi(std::string("/files/demo/") + kWheel + ".metadata").body, "Name: demo");
  answers["/files/" + std::string(kWheel) + ".metadata"] = {.body = "Name: evil"};
  EXPECT_EQ(ruleOf(pypi(std::string("/files/demo/") + kWheel + ".metadata")), "packages.hash");
  packages.rules.deny = {"demo"};
  EXPECT_EQ(pypi(std::string("/files/demo/") + kWheel + ".metadata").status, 403);
}

TEST_F(PypiGatewayTest, BadIndexesAreErrors) {
  options.most_index = 10'000;
  options.timeout = Millis(300);
  const Answer bad[] = {
      {.type = kJsonPage, .body = R"({"files":[)" + std::string(20'000, ' ') + "]}"},
      {.type = kJsonPage, .body = "{"},
      {.type = kJsonPage, .body = "[" + std::string(5'000, '[')},
      {.type = kJsonPage, .body = R"({"files":[]})", .cut = 5},
      {.type = kJsonPage, .body = R"({"files":[]})", .cut = 5, .stall = true},
      {.type = kJsonPage, .body = R"({"files":[]})", .more = "Content-Encoding: gzip\r\n"},
      {.head = "HTTP/1.1 500 No\r\n"},
      {.head = "HTTP/1.1 401 No\r\n"},
      {.head = "SSH-2.0\r\n"}};
  for (const Answer& each : bad) {
    answers["/simple/demo/"] = each;
    const GatewayAnswer answer = pypi("/simple/demo/");
    EXPECT_EQ(answer.status, 502) << each.head << each.body.substr(0, 20) << answer.body;
    EXPECT_FALSE(answer.body.empty());
  }
  answers.erase("/simple/demo/");
  EXPECT_EQ(pypi("/simple/demo/").status, 404);
}

// A sandbox that reads slowly keeps its own places, and its tenant's, and no other's.
TEST_F(PypiGatewayTest, AnAnswerHasItsPlacesUntilItIsSent) {
  put(kWheel, "wheel");
  bounds.of_one = 2;
  bounds.of_tenant = 3;
  bounds.turn = Millis(50);
  std::vector<GatewayAnswer> unsent;
  const auto asks = [&] {
    unsent.push_back(pypi("/simple/demo/"));
    return unsent.back().status;
  };
  EXPECT_EQ(asks(), 200);
  EXPECT_EQ(asks(), 200);
  EXPECT_EQ(asks(), 503) << "the sandbox has two answers";
  use = std::make_shared<size_t>(0);
  EXPECT_EQ(asks(), 200);
  EXPECT_EQ(asks(), 503) << "the tenant has three answers";
  tenant = "other";
  EXPECT_EQ(asks(), 200);
  unsent.clear();
  tenant = "acme";
  EXPECT_EQ(asks(), 200);
}

TEST_F(PypiGatewayTest, RequestsWaitForTheirTurn) {
  put(kWheel, "wheel");
  bounds.of_one = 1;
  bounds.turn = Millis(50);
  *use = 1;
  EXPECT_EQ(pypi("/simple/demo/").status, 503);
  *use = 0;
  EXPECT_EQ(pypi("/simple/demo/").status, 200);
  EXPECT_EQ(*use, 0U);
}

class NpmGatewayTest : public GatewayTest {
 protected:
  void put(const std::string& tarball, const std::string& more = "",
           const std::string& name = "demo", const std::string& path = "/demo") {
    answers["/t.tgz"] = {.type = "application/octet-stream", .body = tarball};
    answers[path] = {.body = R"({"name":")" + name + R"(","dist-tags":{"latest":"1.0.0"},)" +
                             R"("time":{"1.0.0":")" + kOld + R"("},"versions":{"1.0.0":{"dist":)" +
                             R"({"tarball":"/t.tgz")" + more + "}}}}"};
  }
};

TEST_F(NpmGatewayTest, ServesAPackage) {
  put(npmPackage(R"({"name":"demo"})"));
  const GatewayAnswer brief = npm("/demo", "application/vnd.npm.install-v1+json; q=1.0, */*");
  EXPECT_EQ(brief.type, "application/vnd.npm.install-v1+json");
  EXPECT_THAT(brief.body, HasSubstr("http://npm.cloister.internal/demo/-/demo-1.0.0.tgz"));
  EXPECT_THAT(npm("/demo").body, HasSubstr("\"time\""));
  EXPECT_THAT(npm("/demo/latest").body, HasSubstr("\"version\":\"1.0.0\""));
  GatewayAnswer file = npm("/demo/-/demo-1.0.0.tgz");
  EXPECT_EQ(file.status, 200) << file.body;
  EXPECT_EQ(whole(file).first, npmPackage(R"({"name":"demo"})"));
  EXPECT_EQ(npm("/-/ping").status, 200);
  EXPECT_EQ(npm("/demo/9.9.9").status, 404);
  EXPECT_EQ(npm("/demo/-/demo-9.9.9.tgz").status, 404);
}

TEST_F(NpmGatewayTest, ServesAScopedPackage) {
  put(npmPackage(R"({"name":"@s/demo"})"), "", "@s/demo", "/@s%2Fdemo");
  EXPECT_EQ(npm("/@s%2fdemo").status, 200);
  EXPECT_EQ(npm("/@s/demo").status, 200);
  GatewayAnswer file = npm("/@s/demo/-/demo-1.0.0.tgz");
  EXPECT_EQ(file.status, 200) << file.body;
  for (const char* path :
       {"/@s%2f..%2fdemo", "/@s%2f..", "/@s", "/a%2fb", "/%40s%252fdemo", "/..%2fdemo"}) {
    const int status = npm(path).status;
    EXPECT_TRUE(status == 400 || status == 404) << path;
  }
  EXPECT_EQ(asked.size(), 2U);
}

TEST_F(NpmGatewayTest, IntegrityIsVerified) {
  const std::string tarball = npmPackage(R"({"name":"demo"})");
  put(tarball, R"(,"integrity":"sha512-)" + base::toBase64(std::string(64, 'x')) + "\"");
  EXPECT_EQ(ruleOf(npm("/demo/-/demo-1.0.0.tgz")), "packages.hash");
  start();
  put(tarball, R"(,"shasum":"0000000000000000000000000000000000000000")");
  EXPECT_EQ(ruleOf(npm("/demo/-/demo-1.0.0.tgz")), "packages.hash");
}

TEST_F(NpmGatewayTest, ScriptsThatOnlyTheTarballHasAreRefused) {
  put(npmPackage(R"({"name":"demo","scripts":{"postinstall":"x"}})"));
  EXPECT_EQ(npm("/demo").status, 200);
  const GatewayAnswer file = npm("/demo/-/demo-1.0.0.tgz");
  EXPECT_EQ(file.status, 403);
  EXPECT_EQ(ruleOf(file), "packages.scripts");
  EXPECT_THAT(base::parseJson(file.body)->at("error").as_string().c_str(),
              HasSubstr("packages.scripts: demo 1.0.0 would run code"));
  packages.rules.scripts_allowed = true;
  EXPECT_EQ(npm("/demo/-/demo-1.0.0.tgz").status, 200);
}

TEST_F(NpmGatewayTest, ARefusedPackageIsAnErrorInJson) {
  put(npmPackage("{}"));
  packages.rules.cooldown_days = 36'500;
  const GatewayAnswer answer = npm("/demo");
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(ruleOf(answer), "packages.cooldown");
  EXPECT_TRUE(base::parseJson(answer.body)->as_object().contains("error"));
  EXPECT_EQ(npm("/demo/-/demo-1.0.0.tgz").status, 403) << "a lockfile leads here";
}

}  // namespace
}  // namespace cloister::egress
