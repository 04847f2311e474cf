// SPDX-License-Identifier: Apache-2.0
// The values are those of AWS's published examples: of the S3 API Reference ("Examples: Signature
// calculations"), of the test suite of Signature Version 4, and of the derivation of a key.
#include "artifacts/s3/sigv4.h"

#include <gmock/gmock.h>

#include "base/crypto.h"

namespace cloister::artifacts {
namespace {

using testing::HasSubstr;

struct Vector {
  const char* name;
  const char* secret;
  SigningScope scope;
  SignedRequest request;
  const char* signature;
};

const std::string kEmpty = base::sha256Hex("");
constexpr char kSecret[] = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
constexpr char kSuiteSecret[] = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
const SigningScope kS3{.region = "us-east-1", .time = "20130524T000000Z"};
const SigningScope kSuite{.region = "us-east-1", .service = "service", .time = "20150830T123600Z"};

std::map<std::string, std::string> headersOf(const std::string& sha256) {
  return {{"host", "examplebucket.s3.amazonaws.com"},
          {"x-amz-content-sha256", sha256},
          {"x-amz-date", "20130524T000000Z"}};
}

SignedRequest withRange() {
  SignedRequest request{
      .method = "GET", .path = "/test.txt", .headers = headersOf(kEmpty), .payload_sha256 = kEmpty};
  request.headers["range"] = "bytes=0-9";
  return request;
}

SignedRequest put() {
  const std::string sha256 = base::sha256Hex("Welcome to Amazon S3.");
  SignedRequest request{.method = "PUT",
                        .path = "/test%24file.text",
                        .headers = headersOf(sha256),
                        .payload_sha256 = sha256};
  request.headers["date"] = "Fri, 24 May 2013 00:00:00 GMT";
  request.headers["x-amz-storage-class"] = "REDUCED_REDUNDANCY";
  return request;
}

SignedRequest get(std::map<std::string, std::string> query) {
  return {.method = "GET",
          .path = "/",
          .query = std::move(query),
          .headers = headersOf(kEmpty),
          .payload_sha256 = kEmpty};
}

SignedRequest ofSuite(std::map<std::string, std::string> query) {
  return {.method = "GET",
          .path = "/",
          .query = std::move(query),
          .headers = {{"host", "example.amazonaws.com"}, {"x-amz-date", "20150830T123600Z"}},
          .payload_sha256 = kEmpty};
}

TEST(SigV4, SignsAsPublished) {
  const Vector vectors[] = {
      {"GET of a range", kSecret, kS3, withRange(),
       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
      {"PUT with more headers", kSecret, kS3, put(),
       "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
      {"GET of a part of the bucket's configuration", kSecret, kS3, get({{"lifecycle", ""}}),
       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
      {"list", kSecret, kS3, get({{"prefix", "J"}, {"max-keys", "2"}}),
       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
      {"get-vanilla", kSuiteSecret, kSuite, ofSuite({}),
       "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"},
      {"get-vanilla-query-order-key-case", kSuiteSecret, kSuite,
       ofSuite({{"Param2", "value2"}, {"Param1", "value1"}}),
       "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"},
  };
  for (const Vector& each : vectors) {
    const std::string value =
        authorizationOf(each.request, {"AKIAIOSFODNN7EXAMPLE", each.secret, ""}, each.scope);
    EXPECT_THAT(value, testing::EndsWith(std::string(",Signature=") + each.signature)) << each.name;
  }
}

TEST(SigV4, TheHeaderNamesKeyScopeAndHeaders) {
  EXPECT_THAT(
      authorizationOf(withRange(), {"AKIAIOSFODNN7EXAMPLE", kSecret, ""}, kS3),
      testing::StartsWith(
          "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
          "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature="));
}

TEST(SigV4, EverySignedPartCounts) {
  const S3Credentials key{"AKIAIOSFODNN7EXAMPLE", kSecret, ""};
  const std::string before = authorizationOf(withRange(), key, kS3);
  const auto differs = [&](const std::function<void(SignedRequest&)>& change) {
    SignedRequest request = withRange();
    change(request);
    return authorizationOf(request, key, kS3) != before;
  };
  EXPECT_TRUE(differs([](SignedRequest& r) { r.method = "HEAD"; }));
  EXPECT_TRUE(differs([](SignedRequest& r) { r.path = "/test.txu"; }));
  EXPECT_TRUE(differs([](SignedRequest& r) { r.query["a"] = "b"; }));
  EXPECT_TRUE(differs([](SignedRequest& r) { r.headers["range"] = "bytes=0-8"; }));
  EXPECT_TRUE(differs([](SignedRequest& r) { r.payload_sha256 = base::sha256Hex("x"); }));
}

TEST(SigV4, QueriesAreEncodedAndSorted) {
  EXPECT_EQ(canonicalQuery({{"uploads", ""}, {"prefix", "a/b c+é"}, {"X", "1"}}),
            "X=1&prefix=a%2Fb%20c%2B%C3%A9&uploads=");
}

TEST(SigV4, TimesAreUtc) {
  EXPECT_EQ(signingTime(1'369'353'600'000'000), "20130524T000000Z");
}

TEST(S3Credentials, AreReadFromAFileInTheFormOfAws) {
  const auto read = parseCredentials(
      "# of the service\n[default]\naws_access_key_id = AKID\n\naws_secret_access_key=s/e+c\r\n");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->key_id, "AKID");
  EXPECT_EQ(read->secret, "s/e+c");
  EXPECT_EQ(read->token, "");
  EXPECT_EQ(
      parseCredentials("aws_access_key_id=a\naws_secret_access_key=b\naws_session_token=c")->token,
      "c");
}

TEST(S3Credentials, AWrongLineIsNamedWithoutItsValue) {
  for (const std::string text :
       {"", "aws_access_key_id = a", "aws_secret_access_key = TOPSECRET",
        "aws_access_key_id = a\naws_secret_access_key = TOP SECRET",
        "aws_access_key_id = a\naws_secret_access_key = TOPSECRET\naws_secret_access_key = b",
        "TOPSECRET", "key = TOPSECRET"}) {
    const auto read = parseCredentials(text);
    ASSERT_FALSE(read) << text;
    EXPECT_THAT(read.error().message, HasSubstr("aws_access_key_id")) << text;
    EXPECT_THAT(read.error().message, testing::Not(HasSubstr("TOP"))) << text;
  }
}

}  // namespace
}  // namespace cloister::artifacts
