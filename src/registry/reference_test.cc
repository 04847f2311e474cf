// SPDX-License-Identifier: Apache-2.0
#include "registry/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "registry/challenge.h"
#include "registry/credentials.h"
#include "registry/sources.h"

namespace cloister::registry {
namespace {

using testing::HasSubstr;

const std::string kDigest = "@sha256:" + std::string(64, 'a');

TEST(Reference, ReadsTheFormsOfOtherTools) {
  const std::pair<std::string, std::string> cases[] = {
      {"python", "docker.io/library/python"},
      {"python:3.12-slim", "docker.io/library/python"},
      {"team/app", "docker.io/team/app"},
      {"docker.io/team/app", "docker.io/team/app"},
      {"index.docker.io/python", "docker.io/library/python"},
      {"ghcr.io/team/app:v1", "ghcr.io/team/app"},
      {"Registry.Example:5000/a/b/c", "registry.example:5000/a/b/c"},
      {"localhost/app", "localhost/app"},
      {"127.0.0.1:5000/app__x", "127.0.0.1:5000/app__x"},
      {"[::1]:5000/app--x", "[::1]:5000/app--x"},
      {"https://registry.example/app", "registry.example/app"},
  };
  for (const auto& [text, expected] : cases) {
    const auto parsed = parseReference(text + kDigest);
    ASSERT_TRUE(parsed) << text << ": " << parsed.error().message;
    EXPECT_EQ(parsed->text(), expected + kDigest);
    EXPECT_TRUE(parsed->tls);
  }
  for (const std::string host : {"localhost", "127.0.0.1:5000", "[::1]:5000"}) {
    const auto parsed = parseReference("http://" + host + "/app" + kDigest);
    ASSERT_TRUE(parsed) << host;
    EXPECT_FALSE(parsed->tls);
    EXPECT_EQ(parsed->registry, host);
  }
}

TEST(Reference, WithoutADigestGetsTheRemedy) {
  for (const std::string text :
       {"python", "python:3.12", "registry.example/app@sha256:12", "app@sha512:ab", "app@"}) {
    const auto parsed = parseReference(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr("REF@sha256:DIGEST"));
  }
}

TEST(Reference, RefusesWhatIsNone) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "the path"},
      {"a//b", "the path"},
      {"a/../b", "the path"},
      {"a/.b", "the path"},
      {"UPPER", "the path"},
      {"a___b", "the path"},
      {"a b", "the path"},
      {"a/b:", "the tag"},
      {"a:-x", "the tag"},
      {"a:" + std::string(129, 'x'), "the tag"},
      {std::string(256, 'a'), "the path"},
      {"user:word@registry.example/a", "the digest"},
      {"registry.example:x/a", "the registry"},
      {"registry.example:123456/a", "the registry"},
      {"[::1/a", "the registry"},
      {"https://app", "no registry"},
      {"http://registry.example/app", "https"},
      {"http://127.0.0.1.example/app", "https"},
      {"ftp://registry.example/app", "the"},
      {std::string(2000, 'a'), "too long"},
  };
  for (const auto& [text, why] : cases) {
    const auto parsed = parseReference(text + kDigest);
    ASSERT_FALSE(parsed) << text;
    EXPECT_THAT(parsed.error().message, HasSubstr(why)) << text;
    EXPECT_EQ(parsed.error().code, Code::kInvalid);
  }
}

TEST(Mirror, IsAUrlWithAPathOfRepositories) {
  EXPECT_EQ(parseMirror("https://mirror.example")->target, "");
  EXPECT_EQ(parseMirror("https://mirror.example:8443/hub/")->target, "/hub");
  EXPECT_EQ(parseMirror("http://127.0.0.1:5000")->port, "5000");
  for (const char* bad :
       {"mirror.example", "http://mirror.example", "https://m.example/a?b", "https://u@m.example",
        "https://m.example/../x", "https://m.example/%2e"}) {
    EXPECT_FALSE(parseMirror(bad)) << bad;
  }
}

TEST(Challenge, ReadsWhatRegistriesSend) {
  const auto bearer = parseChallenges(
      R"(Bearer realm="https://auth.example/token",service="registry.example",scope="repository:a/b:pull,push")");
  ASSERT_TRUE(bearer);
  ASSERT_EQ(bearer->size(), 1U);
  EXPECT_EQ(bearer->front().scheme, "bearer");
  EXPECT_EQ(bearer->front().realm, "https://auth.example/token");
  EXPECT_EQ(bearer->front().service, "registry.example");
  EXPECT_EQ(bearer->front().scope, "repository:a/b:pull,push");
  const auto two = parseChallenges(R"(Basic realm="a \"b\"", , BEARER error=x , realm = c)");
  ASSERT_TRUE(two);
  ASSERT_EQ(two->size(), 2U);
  EXPECT_EQ(two->at(0).realm, "a \"b\"");
  EXPECT_EQ(two->at(1).realm, "c");
  EXPECT_TRUE(parseChallenges("")->empty());
  EXPECT_EQ(parseChallenges("Negotiate")->front().scheme, "negotiate");
}

TEST(Challenge, RefusesWhatIsMalformed) {
  for (const std::string bad :
       {"realm=\"x\"", "Bearer realm=\"x", "Bearer realm=\"x\\", "=", "\"", "a,b,c,d,e,f,g,h,i"}) {
    EXPECT_FALSE(parseChallenges(bad)) << bad;
  }
  EXPECT_FALSE(parseChallenges("Bearer realm=" + std::string(9000, 'x')));
}

TEST(Token, IsTakenFromTheAnswer) {
  EXPECT_EQ(tokenIn(R"({"token":"abc","expires_in":60})").value(), "abc");
  EXPECT_EQ(tokenIn(R"({"access_token":"def"})").value(), "def");
  for (const std::string bad :
       {"", "[]", "{}", R"({"token":1})", R"({"token":""})", R"({"token":"a\r\nHost: x"})"}) {
    EXPECT_FALSE(tokenIn(bad)) << bad;
  }
  EXPECT_FALSE(tokenIn(R"({"token":")" + std::string(40'000, 'x') + "\"}"));
}

TEST(Credentials, AreReadInDockersForm) {
  // cGF1bDpodW50ZXI6Mg==: paul:hunter:2
  const auto credentials = Credentials::parse(
      R"({"auths":{"https://index.docker.io/v1/":{"auth":"cGF1bDpodW50ZXI6Mg=="},
                   "registry.example:5000":{"username":"u","password":"p"},
                   "helped.example":{}, "broken.example":{"auth":"***"}},
          "credsStore":"desktop"})");
  ASSERT_TRUE(credentials) << credentials.error().message;
  const auto hub = credentials->at("docker.io").value();
  ASSERT_TRUE(hub);
  EXPECT_EQ(hub->user, "paul");
  EXPECT_EQ(hub->password, "hunter:2");
  EXPECT_EQ(hub->basic(), "Basic cGF1bDpodW50ZXI6Mg==");
  EXPECT_EQ(credentials->at("registry.example:5000").value()->user, "u");
  EXPECT_FALSE(credentials->at("registry.example").value());
  EXPECT_FALSE(credentials->at("other.example").value());
  EXPECT_THAT(credentials->at("helped.example").error().message, HasSubstr("base64 of USER"));
  EXPECT_THAT(credentials->at("broken.example").error().message, HasSubstr("base64 of USER"));
  for (const char* bad : {"", "[]", "{}", R"({"auths":[]})"})
    EXPECT_FALSE(Credentials::parse(bad)) << bad;
  EXPECT_TRUE(Credentials::load(""));
  EXPECT_THAT(Credentials::load("/nowhere/config.json").error().message,
              HasSubstr("images.credentials_file"));
}

}  // namespace
}  // namespace cloister::registry
