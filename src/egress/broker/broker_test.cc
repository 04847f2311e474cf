// SPDX-License-Identifier: Apache-2.0
#include "egress/broker/broker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"

namespace cloister::egress {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSign = "cloister-placeholder-7f3a9b2c5d";
constexpr std::string_view kSecret = "the-value-of-the-secret";

model::PlanSecret secret(const std::string& id = "use_1") {
  model::PlanSecret made;
  made.id = id;
  made.name = "key-" + id;
  made.host = "api.example.com";
  made.header = "authorization";
  made.format = "Bearer {}";
  return made;
}

std::shared_ptr<const Broker> brokerOf(std::vector<model::PlanSecret> secrets) {
  std::vector<model::SecretValue> values;
  for (const model::PlanSecret& each : secrets)
    values.push_back({each.id, std::string(kSecret)});
  return Broker::make(std::move(secrets), intoVault(std::move(values)).value());
}

RequestHead request(const std::string& path = "/v1/x", std::vector<HeadField> fields = {}) {
  RequestHead head;
  head.method = "GET";
  head.path = head.origin = path;
  head.fields = std::move(fields);
  return head;
}

TEST(Vault, WipesWhatItTakes) {
  std::vector<model::SecretValue> from = {{"a", "first"}, {"b", ""}};
  const auto values = intoVault(std::move(from)).value();
  EXPECT_EQ(values.at("a")->view(), "first");
  EXPECT_EQ(values.at("b")->view(), "");
  std::string text = "first";
  const char* bytes = text.data();
  wipe(text);
  EXPECT_EQ(bytes[0], '\0');  // short texts stay in place
  EXPECT_TRUE(text.empty());
}

TEST(Broker, SetsTheHeaderForTheBoundRequestsAlone) {
  model::PlanSecret bound = secret();
  bound.methods = {"GET", "POST"};
  bound.paths = {"/v1/*"};
  const auto broker = brokerOf({bound});
  const auto set = [&](RequestHead head, std::string_view host, uint16_t port) {
    EXPECT_FALSE(broker->apply(head, host, port));
    return std::string(head.field("authorization"));
  };
  const std::string sent = "Bearer " + std::string(kSecret);
  EXPECT_EQ(set(request(), "api.example.com", 443), sent);
  EXPECT_EQ(set(request(), "api.example.com", 8443), "");
  EXPECT_EQ(set(request(), "evil.example.com", 443), "");
  EXPECT_EQ(set(request("/v2/x"), "api.example.com", 443), "");
  EXPECT_EQ(set(request("/v1/../v2/x"), "api.example.com", 443), "");
  EXPECT_EQ(set(request("/v1//x"), "api.example.com", 443), "");
  RequestHead put = request();
  put.method = "PUT";
  EXPECT_EQ(set(put, "api.example.com", 443), "");
}

TEST(Broker, AFieldThatNamesAnotherRequestTakesTheSecretAway) {
  model::PlanSecret bound = secret();
  bound.methods = {"GET"};
  bound.paths = {"/v1/*"};
  const auto broker = brokerOf({bound});
  const auto set = [&](RequestHead head) {
    EXPECT_FALSE(broker->apply(head, "api.example.com", 443));
    return !head.field("authorization").empty();
  };
  RequestHead head = request();
  head.field_methods = {"GET"};
  head.field_paths = {"/v1/other"};
  EXPECT_TRUE(set(head));
  head.field_methods = {"DELETE"};
  EXPECT_FALSE(set(head));
  head.field_methods = {};
  head.field_paths = {"/admin"};
  EXPECT_FALSE(set(head));
}

TEST(Broker, TheClientsOwnHeaderIsReplacedInEverySpelling) {
  model::PlanSecret bound = secret();
  bound.header = "x-api-key";
  bound.format = "{}";
  const auto broker = brokerOf({bound});
  RequestHead head = request("/", {{"x_api_key", "mine"}, {"other", "1"}});
  EXPECT_FALSE(broker->apply(head, "api.example.com", 443));
  EXPECT_EQ(head.field("x_api_key"), "");
  EXPECT_EQ(head.field("x-api-key"), kSecret);
  RequestHead twice = request("/", {{"x_api_key", "a"}, {"x-api-key", "b"}});
  const auto fault = broker->apply(twice, "api.example.com", 443);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->status, 400);
  EXPECT_EQ(fault->rule, kSecretRule);
}

TEST(Broker, TheFirstSecretForAHeaderIsSent) {
  model::PlanSecret narrow = secret("use_1");
  narrow.paths = {"/admin/*"};
  narrow.format = "Admin {}";
  const auto broker = brokerOf({narrow, secret("use_2")});
  RequestHead admin = request("/admin/x");
  RequestHead other = request("/x");
  EXPECT_FALSE(broker->apply(admin, "api.example.com", 443));
  EXPECT_FALSE(broker->apply(other, "api.example.com", 443));
  EXPECT_THAT(std::string(admin.field("authorization")), HasSubstr("Admin "));
  EXPECT_THAT(std::string(other.field("authorization")), HasSubstr("Bearer "));
}

TEST(Broker, AnswersAreAskedForPlainOfBoundHostsAlone) {
  const auto broker = brokerOf({secret()});
  const std::vector<HeadField> fields = {{"accept-encoding", "gzip, br"},
                                         {"range", "bytes=0-1"},
                                         {"sec-websocket-extensions", "permessage-deflate"},
                                         {"grpc-accept-encoding", "gzip"}};
  RequestHead bound = request("/", fields);
  EXPECT_FALSE(broker->apply(bound, "api.example.com", 443));
  EXPECT_EQ(bound.field("accept-encoding"), "identity");
  EXPECT_EQ(bound.field("grpc-accept-encoding"), "identity");
  EXPECT_EQ(bound.field("range"), "");
  EXPECT_EQ(bound.field("sec-websocket-extensions"), "");
  RequestHead free = request("/", fields);
  EXPECT_FALSE(broker->apply(free, "other.example.com", 443));
  EXPECT_EQ(free.fields, fields);
}

TEST(Broker, ReplacesPlaceholdersInValues) {
  model::PlanSecret bound = secret();
  bound.header.clear();
  bound.placeholder = kSign;
  const auto broker = brokerOf({bound});
  const std::string sign(kSign);
  RequestHead head = request("/", {{"x-key", sign + "," + sign},
                                   {"authorization", "basic  " + base::toBase64(sign + ":x")}});
  EXPECT_FALSE(broker->apply(head, "api.example.com", 443));
  EXPECT_EQ(head.field("x-key"), std::string(kSecret) + "," + std::string(kSecret));
  EXPECT_EQ(head.field("authorization"), "Basic " + base::toBase64(std::string(kSecret) + ":x"));
}

TEST(Broker, RefusesPlaceholdersElsewhere) {
  model::PlanSecret bound = secret();
  bound.placeholder = kSign;
  const auto broker = brokerOf({bound});
  const std::string sign(kSign);
  const auto rule = [&](RequestHead head, std::string_view host) {
    const auto fault = broker->apply(head, host, 443);
    return fault ? std::string(fault->rule) : "";
  };
  EXPECT_EQ(rule(request("/" + sign), "api.example.com"), kPlaceholderRule);
  EXPECT_EQ(rule(request("/", {{"x-" + sign, "1"}}), "api.example.com"), kPlaceholderRule);
  EXPECT_EQ(rule(request("/", {{"x", sign}}), "evil.example.com"), kPlaceholderRule);
  EXPECT_EQ(rule(request("/", {{"x", base::toBase64(sign)}}), "api.example.com"), kPlaceholderRule);
  EXPECT_EQ(rule(request("/", {{"host", sign}}), "api.example.com"), kSecretRule);
  // The header that is set anyway replaces the client's value.
  EXPECT_EQ(rule(request("/", {{"authorization", sign}}), "api.example.com"), "");
  EXPECT_TRUE(broker->misplaced("x " + sign, "a body"));
  EXPECT_FALSE(broker->misplaced("x", "a body"));
}

TEST(Broker, RefusesPlaceholdersInLookUps) {
  model::PlanSecret bound = secret();
  bound.placeholder = "Cloister-Sign-ABCDEF0123";
  const auto broker = brokerOf({bound});
  EXPECT_TRUE(broker->inLookUp("cloister-sign-abcdef0123.evil.test"));
  EXPECT_TRUE(broker->inLookUp("cloister-sign.-abcdef0123.evil.test"));
  EXPECT_FALSE(broker->inLookUp("api.example.com"));
}

TEST(Broker, AValueThatIsNoHeaderIsNotSent) {
  const auto broker =
      Broker::make({secret()}, intoVault({{"use_1", "two\r\nX-Evil: lines"}}).value());
  RequestHead head = request();
  const auto fault = broker->apply(head, "api.example.com", 443);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->status, 403);
  EXPECT_EQ(head.field("authorization"), "");
}

TEST(Broker, FaultsNeverHaveTheValue) {
  model::PlanSecret bound = secret();
  bound.placeholder = kSign;
  const auto broker = brokerOf({bound});
  RequestHead head = request("/", {{"x", std::string(kSign) + " " + base::toHex(kSign)}});
  const auto fault = broker->apply(head, "api.example.com", 443);
  ASSERT_TRUE(fault);
  EXPECT_FALSE((fault->reason + fault->remedy).contains(kSecret));
  wipe(head);
  for (const HeadField& field : head.fields)
    EXPECT_EQ(field.value, "");
}

}  // namespace
}  // namespace cloister::egress
