// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/network.h"

namespace cloister::model {
namespace {

using testing::HasSubstr;

std::string accepted(std::string_view text) {
  const auto name = hostName(text);
  return name ? *name : "refused: " + name.error().message;
}

TEST(HostName, IsAcceptedInItsOneSpelling) {
  for (const std::string& name :
       {std::string("api.example.com"), std::string("a"), std::string("proxy.cloister.internal"),
        std::string("1password.com"), std::string("3.example"), std::string("1.2.3.4.example.com"),
        std::string("_dmarc.example.com"), std::string("_http._tcp.example.com"),
        std::string("r3---sn.example.com"), std::string("xn--bcher-kva.example"),
        std::string("0x7f.example"), std::string(63, 'a') + ".example", std::string("a.0xg")})
    EXPECT_EQ(accepted(name), name);
}

TEST(HostName, TurnsOtherAlphabetsIntoALabels) {
  EXPECT_EQ(accepted("bücher.example"), "xn--bcher-kva.example");
  EXPECT_EQ(accepted("faß.example"), "xn--fa-hia.example");
  EXPECT_EQ(accepted("שלום.example"), "xn--9dbne9b.example");
  EXPECT_EQ(accepted("xn--bcher-kva.bücher.example"), "xn--bcher-kva.xn--bcher-kva.example");
  EXPECT_EQ(accepted("\u0430pple.example"), "xn--pple-43d.example") << "a Cyrillic letter shows";
}

TEST(HostName, NeverMapsOneSpellingToAnother) {
  for (const char* odd :
       {"Bücher.example", "bÜcher.example", "bu\u0308cher.example", "bücher\u3002example",
        "\uff41\uff42\uff43.example", "a\u200db.example", "a\u00adb.example", "\U0001f4a9.example",
        "\u0663.example", "xn--BCHER-KVA.example", "xn--a.example", "xn--abc-.example",
        "xn--.example", "xn--ls8h.example", "\u2024example.com", "example\uff0ecom",
        "exam\u2044ple.com"})
    EXPECT_FALSE(hostName(odd)) << odd;
}

// Twenty spellings of an address, and more.
TEST(HostName, IsNoAddress) {
  for (const char* address : {"2130706433",
                              "0177.0.0.1",
                              "0x7f.1",
                              "0x7f000001",
                              "127.1",
                              "127.0.1",
                              "127.0.0.1",
                              "017700000001",
                              "0x7f.0x0.0x0.0x1",
                              "1.2.3.0x",
                              "0xa9fea9fe",
                              "169.254.43518",
                              "::ffff:169.254.169.254",
                              "::169.254.169.254",
                              "2002:a9fe:a9fe::",
                              "64:ff9b::a9fe:a9fe",
                              "fe80::1%lo",
                              "::1",
                              "[::1]",
                              "0",
                              "00",
                              "1.1.1.1.",
                              "999.999.999.999",
                              "example.1",
                              "example.0x1f",
                              "1",
                              "256.1",
                              "①.①.①.①",
                              "１２７.1"})
    EXPECT_FALSE(hostName(address)) << address;
  EXPECT_THAT(accepted("10.0.0.1"), HasSubstr("by name, not by address"));
  EXPECT_THAT(accepted("::1"), HasSubstr("by name, not by address"));
  EXPECT_THAT(accepted("0x7f.1"), HasSubstr("can be read as an address"));
}

TEST(HostName, RefusesEveryOddSpelling) {
  for (const std::string& odd : {std::string(),
                                 std::string("."),
                                 std::string("allowed.test."),
                                 std::string(".allowed.test"),
                                 std::string("allowed..test"),
                                 std::string("Allowed.test"),
                                 std::string("allowed.TEST"),
                                 std::string("allowed.test@evil.test"),
                                 std::string("allowed.test%00.evil.test"),
                                 std::string("allowed.test\0.evil.test", 23),
                                 std::string("allowed.test:443"),
                                 std::string("allowed.test/"),
                                 std::string("http://allowed.test"),
                                 std::string("allowed.test#"),
                                 std::string("allowed.test?"),
                                 std::string("allowed.test\\"),
                                 std::string("allowed.test "),
                                 std::string(" allowed.test"),
                                 std::string("allowed\t.test"),
                                 std::string("allowed.test\r\n"),
                                 std::string("a,b.test"),
                                 std::string("*.test"),
                                 std::string("-a.test"),
                                 std::string("a-.test"),
                                 std::string("a_b.test"),
                                 std::string("_.test"),
                                 std::string("__a.test"),
                                 std::string("a._test"),
                                 std::string("\xff.test"),
                                 std::string("a\xc0\xae.test"),
                                 std::string(64, 'a') + ".test",
                                 std::string("(a).test"),
                                 std::string("a+b.test"),
                                 std::string("a=b.test")})
    EXPECT_FALSE(hostName(odd)) << odd;
}

TEST(HostName, IsBounded) {
  std::string name;
  for (int i = 0; i < 50; ++i)
    name += "abcd.";
  EXPECT_EQ(accepted(name + "abc"), name + "abc") << "253 bytes";
  EXPECT_FALSE(hostName(name + "abcd"));
  EXPECT_FALSE(hostName(std::string(1 << 20, 'a')));
}

TEST(HostName, ErrorsAdviseAndAreSafeToShow) {
  EXPECT_THAT(accepted("API.example.com"), HasSubstr("\"API.example.com\" is not accepted"));
  EXPECT_THAT(accepted("API.example.com"), HasSubstr("lower case"));
  EXPECT_THAT(accepted("https://a.example"), HasSubstr("without scheme"));
  EXPECT_THAT(accepted("a.example."), HasSubstr("without a dot at an end"));
  EXPECT_THAT(accepted(""), HasSubstr("such as api.example.com"));
  EXPECT_THAT(accepted("a\x1b[2J.example"), HasSubstr("\\x1b"));
  EXPECT_LT(accepted(std::string(4000, 'a')).size(), 400U);
}

TEST(HostPattern, HasItsStarInFront) {
  EXPECT_EQ(hostPattern("*.example.org"), "*.example.org");
  EXPECT_EQ(hostPattern("*.bücher.example"), "*.xn--bcher-kva.example");
  EXPECT_EQ(hostPattern("example.org"), "example.org");
  for (const char* odd : {"*", "*.", "*.org", "*.*.org", "a.*.org", "*a.example.org",
                          "a*.example.org", "example.*", "**.example.org", "*.EXAMPLE.org",
                          "*.example.org.", "*.0.0.1", "*..example.org", "*example.org"})
    EXPECT_FALSE(hostPattern(odd)) << odd;
}

TEST(HostPattern, CoversNamesBelowAndLeavesOutTheApex) {
  EXPECT_TRUE(coversName("example.org", "example.org"));
  EXPECT_FALSE(coversName("example.org", "a.example.org"));
  EXPECT_FALSE(coversName("example.org", "example.org.evil.test"));
  EXPECT_TRUE(coversName("*.example.org", "a.example.org"));
  EXPECT_TRUE(coversName("*.example.org", "a.b.example.org"));
  EXPECT_FALSE(coversName("*.example.org", "example.org"));
  EXPECT_FALSE(coversName("*.example.org", ".example.org"));
  EXPECT_FALSE(coversName("*.example.org", "badexample.org"));
  EXPECT_TRUE(coversName(kAnyName, "example.org"));
}

TEST(HostPattern, CoversNarrowerPatterns) {
  EXPECT_TRUE(coversPattern("a.example.org", "a.example.org"));
  EXPECT_TRUE(coversPattern("*.example.org", "a.example.org"));
  EXPECT_TRUE(coversPattern("*.example.org", "*.example.org"));
  EXPECT_TRUE(coversPattern("*.example.org", "*.a.example.org"));
  EXPECT_FALSE(coversPattern("*.a.example.org", "*.example.org"));
  EXPECT_FALSE(coversPattern("*.example.org", "*.badexample.org"));
  EXPECT_FALSE(coversPattern("a.example.org", "*.example.org"));
  EXPECT_FALSE(coversPattern("a.example.org", "*.a.example.org"));
  EXPECT_TRUE(coversPattern(kAnyName, "*.example.org"));
  EXPECT_TRUE(coversPattern(kAnyName, kAnyName));
  EXPECT_FALSE(coversPattern("*.example.org", kAnyName));
}

TEST(PlainPath, IsReadAlikeByEveryServer) {
  for (const char* path : {"/", "/v1", "/v1/", "/v1/users/7", "/a.b/c..d", "/.well-known/x",
                           "/a%20b", "/%C3%BC", "/v1/*", "/a@b:c=d,e+f!$&'()~_-"})
    EXPECT_TRUE(isPlainPath(path)) << path;
}

TEST(PlainPath, HasNoSecondReading) {
  for (const std::string& path : {std::string(),
                                  std::string("v1"),
                                  std::string("*"),
                                  std::string("//"),
                                  std::string("/v1//a"),
                                  std::string("/v1/../admin"),
                                  std::string("/v1/.."),
                                  std::string("/v1/./a"),
                                  std::string("/."),
                                  std::string("/v1/.../a"),
                                  std::string("/v1/%2e%2e/admin"),
                                  std::string("/v1/%2E./admin"),
                                  std::string("/v1/.%2e/admin"),
                                  std::string("/v1%2fadmin"),
                                  std::string("/v1%5c..%5cadmin"),
                                  std::string("/v1\\..\\admin"),
                                  std::string("/v1;x/admin"),
                                  std::string("/v1/..;/admin"),
                                  std::string("/v1%3b"),
                                  std::string("/v1/%252e%252e"),
                                  std::string("/v1%00"),
                                  std::string("/v1%0a"),
                                  std::string("/v1%7f"),
                                  std::string("/v1\0", 4),
                                  std::string("/v1 a"),
                                  std::string("/v1?a"),
                                  std::string("/v1#a"),
                                  std::string("/v1%3fa"),
                                  std::string("/v1%23a"),
                                  std::string("/v1%"),
                                  std::string("/v1%2"),
                                  std::string("/v1%zz"),
                                  std::string("/v1%u002e"),
                                  std::string("/%c0%ae%c0%ae/admin"),
                                  std::string("/%ff"),
                                  std::string("/\xc3\xbc"),
                                  std::string("/a\"b"),
                                  std::string("/a|b"),
                                  std::string("http://a.test/v1")})
    EXPECT_FALSE(isPlainPath(path)) << path;
}

}  // namespace
}  // namespace cloister::model
