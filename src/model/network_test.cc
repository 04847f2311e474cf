// SPDX-License-Identifier: Apache-2.0
#include "model/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr bool kGranting = true;

base::json::value parsed(std::string_view text) {
  return base::parseJson(text).value();
}

Result<NetworkEntry> entry(std::string_view text, bool granting = false) {
  return readNetworkEntry(parsed(text), "network_policy.allow[2]", granting);
}

Result<NetworkRequest> request(std::string_view text) {
  return readNetworkRequest(parsed(text).as_object(), "network_policy");
}

// "field: message" of an error, "" if there is none.
template <class T>
std::string problem(const Result<T>& result) {
  if (result) return "";
  EXPECT_TRUE(result.error().message.starts_with(result.error().field + ": "));
  EXPECT_EQ(result.error().code, Code::kInvalid);
  return result.error().message;
}

TEST(NetworkEntry, IsShortAsTextAndKnowsTheProtocolOfItsPort) {
  const auto tls = entry(R"("api.example.com:443")");
  ASSERT_TRUE(tls) << problem(tls);
  EXPECT_EQ(tls->name, "api.example.com");
  EXPECT_THAT(tls->ports, ElementsAre(443));
  EXPECT_EQ(tls->protocol, Protocol::kTls);
  EXPECT_EQ(entry(R"("*.example.org:80")")->protocol, Protocol::kHttp);
  EXPECT_EQ(entry(R"("*.example.org:80")")->name, "*.example.org");
  EXPECT_EQ(entry(R"("db.example.com:65535")")->protocol, Protocol::kTcp);
  EXPECT_EQ(entry(R"("bücher.example:1")")->name, "xn--bcher-kva.example");
}

TEST(NetworkEntry, IsAnObjectWithBounds) {
  const auto made = entry(
      R"({"name":"*.example.org","ports":[8080,80],"protocol":"http","methods":["GET","HEAD"],
          "paths":["/v1/*"]})");
  ASSERT_TRUE(made) << problem(made);
  EXPECT_EQ(made->name, "*.example.org");
  EXPECT_THAT(made->ports, ElementsAre(80, 8080));
  EXPECT_EQ(made->protocol, Protocol::kHttp);
  EXPECT_THAT(made->methods, ElementsAre("GET", "HEAD"));
  EXPECT_THAT(made->paths, ElementsAre("/v1/*"));
  EXPECT_EQ(entry(R"({"name":"a.example","ports":[443]})")->protocol, Protocol::kTls);
  EXPECT_EQ(entry(R"({"name":"a.example","ports":[22,5432]})")->protocol, Protocol::kTcp);
}

TEST(NetworkEntry, OfAPolicyHasMore) {
  const auto made = entry(
      R"({"name":"a.example","ports":[443],"inspect":true,"methods":["GET"],"dns":["TXT","MX"],
          "max_bytes":1048576,"on_denied":"ask","why":"weather"})",
      kGranting);
  ASSERT_TRUE(made) << problem(made);
  EXPECT_TRUE(made->inspect);
  EXPECT_THAT(made->dns, ElementsAre("TXT", "MX"));
  EXPECT_EQ(made->max_bytes, 1048576U);
  EXPECT_EQ(made->on_denied, OnDenied::kAsk);
  EXPECT_EQ(made->why, "weather");
  for (const char* member : {R"("dns":["TXT"])", R"("max_bytes":1)", R"("inspect":true)",
                             R"("on_denied":"ask")", R"("why":"x")"}) {
    const std::string text = R"({"name":"a.example","ports":[443],)" + std::string(member) + "}";
    EXPECT_TRUE(entry(text, kGranting)) << text;
    EXPECT_THAT(problem(entry(text)), HasSubstr("is for a policy's rule alone")) << text;
  }
}

TEST(NetworkEntry, OfAPolicyCanGrantEveryName) {
  const auto any = entry(R"({"name":"*"})", kGranting);
  ASSERT_TRUE(any) << problem(any);
  EXPECT_EQ(any->name, kAnyName);
  EXPECT_TRUE(any->ports.empty());
  EXPECT_EQ(any->protocol, Protocol::kTcp);
  EXPECT_THAT(entry(R"("*:443")", kGranting)->ports, ElementsAre(443));
  EXPECT_FALSE(entry(R"({"name":"*"})"));
  EXPECT_FALSE(entry(R"("*:443")"));
}

struct Wrong {
  const char* text;
  const char* problem;  // its beginning, after "network_policy.allow[2]"
};

TEST(NetworkEntry, ErrorsNameTheMemberAndTheRemedy) {
  const Wrong wrong[] = {
      {R"(7)", ": must be text such as \"api.example.com:443\""},
      {R"("api.example.com")", ": must be NAME:PORT, such as \"api.example.com:443\""},
      {R"("api.example.com:")", ": must be NAME:PORT"},
      {R"("api.example.com:0")", ": must be NAME:PORT"},
      {R"("api.example.com:65536")", ": must be NAME:PORT"},
      {R"("api.example.com:0443")", ": must be NAME:PORT"},
      {R"("api.example.com:+443")", ": must be NAME:PORT"},
      {R"("api.example.com:443 ")", ": must be NAME:PORT"},
      {R"("api.example.com:https")", ": must be NAME:PORT"},
      {R"("https://api.example.com:443")", ": must be NAME:PORT"},
      {R"("api.example.com:443/v1")", ": must be NAME:PORT"},
      {R"("[::1]:443")", ": must be NAME:PORT"},
      {R"("::1")", ": must be NAME:PORT"},
      {R"("10.0.0.1:443")", ": \"10.0.0.1\" is not accepted as a host name: destinations are"},
      {R"("API.example.com:443")",
       ": \"API.example.com\" is not accepted as a host name: write it"},
      {R"("user@api.example.com:443")", ": \"user@api.example.com\" is not accepted"},
      {R"({})", ".name: is required"},
      {R"({"name":7,"ports":[1]})", ".name: must be a string"},
      {R"({"name":"0x7f.1","ports":[1]})", ".name: \"0x7f.1\" is not accepted"},
      {R"({"name":"a.example"})", ".ports: must be a list"},
      {R"({"name":"a.example","ports":[]})", ".ports: must be a list"},
      {R"({"name":"a.example","ports":443})", ".ports: must be an array"},
      {R"({"name":"a.example","ports":["443"]})", ".ports: a port is a whole number from 1"},
      {R"({"name":"a.example","ports":[0]})", ".ports: a port is a whole number from 1"},
      {R"({"name":"a.example","ports":[-1]})", ".ports: a port is a whole number from 1"},
      {R"({"name":"a.example","ports":[65536]})", ".ports: a port is a whole number from 1"},
      {R"({"name":"a.example","ports":[4.5]})", ".ports: a port is a whole number from 1"},
      {R"({"name":"a.example","ports":[443,443]})", ".ports: names 443 twice"},
      {R"({"name":"a.example","ports":[80,443]})", ".protocol: is required"},
      {R"({"name":"a.example","ports":[1],"protocol":"udp"})",
       ".protocol: must be one of tls, http, tcp"},
      {R"({"name":"a.example","ports":[80],"methods":[]})", ".methods: must have 1 to 64"},
      {R"({"name":"a.example","ports":[80],"methods":["get"]})", ".methods: \"get\" is no method"},
      {R"({"name":"a.example","ports":[80],"methods":[""]})", ".methods: \"\" is no method"},
      {R"({"name":"a.example","ports":[80],"methods":["*"]})", ".methods: \"*\" is no method"},
      {R"({"name":"a.example","ports":[80],"methods":[7]})", ".methods: must be a list of text"},
      {R"({"name":"a.example","ports":[80],"methods":["CONNECT"]})", ".methods: CONNECT is a"},
      {R"({"name":"a.example","ports":[80],"methods":["GET","GET"]})",
       ".methods: names \"GET\" twice"},
      {R"({"name":"a.example","ports":[80],"paths":["v1"]})", ".paths: \"v1\" covers no request"},
      {R"({"name":"a.example","ports":[80],"paths":["/v1/../x"]})",
       ".paths: \"/v1/../x\" covers no"},
      {R"({"name":"a.example","ports":[80],"paths":["/v1?x=1"]})", ".paths: \"/v1?x=1\" covers no"},
      {R"({"name":"a.example","ports":[443],"methods":["GET"]})", ".methods: needs readable HTTP"},
      {R"({"name":"a.example","ports":[443],"paths":["/v1/*"]})", ".paths: needs readable HTTP"},
      {R"({"name":"a.example","ports":[22],"methods":["GET"]})", ".methods: needs readable HTTP"},
      {R"({"name":"a.example","ports":[443],"port":443})", ".port: unknown field"},
  };
  for (const Wrong& each : wrong)
    EXPECT_TRUE(problem(entry(each.text))
                    .starts_with("network_policy.allow[2]" + std::string(each.problem)))
        << each.text << " → " << problem(entry(each.text));
}

TEST(NetworkEntry, ErrorsOfAPolicyNameTheMemberToo) {
  const Wrong wrong[] = {
      {R"({"name":"a.example","ports":[443],"dns":["A"]})", ".dns: must be one of MX, SRV, TXT"},
      {R"({"name":"a.example","ports":[443],"dns":["ANY"]})", ".dns: must be one of MX, SRV, TXT"},
      {R"({"name":"a.example","ports":[443],"max_bytes":0})", ".max_bytes: must be from 1"},
      {R"({"name":"a.example","ports":[443],"max_bytes":-1})", ".max_bytes: must be from 1"},
      {R"({"name":"a.example","ports":[80],"inspect":true})", ".inspect: is for the protocol tls"},
      {R"({"name":"a.example","ports":[22],"inspect":true})", ".inspect: is for the protocol tls"},
      {R"({"name":"a.example","ports":[443],"on_denied":"drop"})",
       ".on_denied: must be one of deny"},
      {R"({"name":"a.example","ports":[443],"secrets":[]})", ".secrets: unknown field"},
  };
  for (const Wrong& each : wrong)
    EXPECT_TRUE(problem(entry(each.text, kGranting))
                    .starts_with("network_policy.allow[2]" + std::string(each.problem)))
        << each.text << " → " << problem(entry(each.text, kGranting));
  const std::string long_why =
      R"({"name":"a.example","ports":[443],"why":")" + std::string(1001, 'x') + "\"}";
  EXPECT_THAT(problem(entry(long_why, kGranting)), HasSubstr("allow[2].why: has at most 1000"));
}

TEST(NetworkEntry, IsBounded) {
  const auto list = [](size_t count, auto item) {
    std::string text;
    for (size_t i = 0; i < count; ++i)
      text += (i == 0 ? "" : ",") + item(i);
    return "[" + text + "]";
  };
  const auto port = [](size_t i) { return std::to_string(i + 1000); };
  const auto path = [](size_t i) { return "\"/" + std::to_string(i) + "\""; };
  const auto with = [](const std::string& ports, const std::string& paths) {
    return R"({"name":"a.example","protocol":"http","ports":)" + ports + R"(,"paths":)" + paths +
           "}";
  };
  EXPECT_TRUE(entry(with(list(kMaxEntryPorts, port), list(kMaxEntryItems, path))));
  EXPECT_FALSE(entry(with(list(kMaxEntryPorts + 1, port), list(1, path))));
  EXPECT_FALSE(entry(with(list(1, port), list(kMaxEntryItems + 1, path))));
  EXPECT_FALSE(entry(with("[80]", "[\"/" + std::string(512, 'a') + "\"]")));
  EXPECT_FALSE(
      entry(R"({"name":"a.example","ports":[80],"methods":[")" + std::string(33, 'A') + "\"]}"));
}

TEST(NetworkEntry, HasOneCanonicalForm) {
  const std::pair<const char*, const char*> forms[] = {
      {R"("api.example.com:443")", R"({"name":"api.example.com","ports":[443]})"},
      {R"({"ports":[443],"protocol":"tls","name":"a.example"})",
       R"({"name":"a.example","ports":[443]})"},
      {R"({"ports":[443,8443],"protocol":"tls","name":"a.example"})",
       R"({"name":"a.example","ports":[443,8443],"protocol":"tls"})"},
      {R"({"ports":[443],"protocol":"tcp","name":"a.example"})",
       R"({"name":"a.example","ports":[443],"protocol":"tcp"})"},
      {R"({"name":"*","why":"all"})", R"({"name":"*","why":"all"})"},
      {R"({"why":"w","ports":[443],"name":"a.example","paths":["/x"],"methods":["GET"],
           "on_denied":"escalate","max_bytes":7,"inspect":true,"dns":["TXT"]})",
       R"({"dns":["TXT"],"inspect":true,"max_bytes":7,"methods":["GET"],"name":"a.example",)"
       R"("on_denied":"escalate","paths":["/x"],"ports":[443],"why":"w"})"},
  };
  for (const auto& [text, canonical] : forms) {
    const auto made = entry(text, kGranting);
    ASSERT_TRUE(made) << problem(made);
    EXPECT_EQ(base::toJson(toJsonObject(*made)), canonical);
    EXPECT_EQ(entry(canonical, kGranting), *made);
    EXPECT_EQ(readNetworkEntry(toJsonObject(*made), "entry", kGranting), *made) << "without text";
  }
}

TEST(NetworkRequest, HasATierEntriesAndAnAnswer) {
  const auto made = request(
      R"({"tier":"restricted","allow":["a.example:443",{"name":"b.example","ports":[80]}],
          "on_denied":"ask"})");
  ASSERT_TRUE(made) << problem(made);
  EXPECT_EQ(made->tier, "restricted");
  ASSERT_EQ(made->allow.size(), 2U);
  EXPECT_EQ(made->allow[1].name, "b.example");
  EXPECT_EQ(made->on_denied, OnDenied::kAsk);
  EXPECT_EQ(base::toJson(toJsonObject(*made)),
            R"({"allow":[{"name":"a.example","ports":[443]},{"name":"b.example","ports":[80]}],)"
            R"("on_denied":"ask","tier":"restricted"})");
  EXPECT_EQ(request(base::toJson(toJsonObject(*made))), *made);
}

TEST(NetworkRequest, IsOfNoNetworkByDefault) {
  EXPECT_EQ(request("{}"), NetworkRequest{});
  EXPECT_EQ(base::toJson(toJsonObject(NetworkRequest{})), R"({"tier":"none"})")
      << "as in the digests of earlier versions' requests";
  for (const std::string_view tier : kNetworkTiers)
    EXPECT_EQ(request(R"({"tier":")" + std::string(tier) + "\"}")->tier, tier);
  EXPECT_TRUE(request(R"({"tier":"none","on_denied":"deny"})"));
}

TEST(NetworkRequest, ErrorsNameTheMember) {
  const Wrong wrong[] = {
      {R"({"tier":"all"})", ".tier: must be one of none, restricted, internal, api, full"},
      {R"({"tier":7})", ".tier: must be a string"},
      {R"({"allow":["a.example:443"]})", ".allow: needs a tier other than none"},
      {R"({"allow":[]})", ".allow: needs a tier other than none"},
      {R"({"tier":"full","allow":[]})", ".allow: must have 1 to 256 entries; leave it out"},
      {R"({"tier":"full","allow":{}})", ".allow: must be an array"},
      {R"({"tier":"full","allow":["a.example:443","b.example"]})", ".allow[1]: must be NAME:PORT"},
      {R"({"tier":"full","allow":[{"name":"a.example","ports":[0]}]})", ".allow[0].ports: a port"},
      {R"({"tier":"full","on_denied":"drop"})", ".on_denied: must be one of deny, escalate, ask"},
      {R"({"on_denied":"ask"})", ".on_denied: needs a tier other than none"},
      {R"({"tier":"full","deny":[]})", ".deny: unknown field"},
  };
  for (const Wrong& each : wrong)
    EXPECT_TRUE(
        problem(request(each.text)).starts_with("network_policy" + std::string(each.problem)))
        << each.text << " → " << problem(request(each.text));
  std::string many;
  for (size_t i = 0; i <= kMaxNetworkEntries; ++i)
    many += (i == 0 ? "\"a" : ",\"a") + std::to_string(i) + ".example:443\"";
  EXPECT_THAT(problem(request(R"({"tier":"full","allow":[)" + many + "]}")),
              HasSubstr("allow: must have 1 to 256 entries"));
}

TEST(NetworkNames, AreReadBack) {
  for (const Protocol protocol : {Protocol::kTls, Protocol::kHttp, Protocol::kTcp})
    EXPECT_EQ(protocolFromName(protocolName(protocol)), protocol);
  for (const OnDenied value : {OnDenied::kDeny, OnDenied::kEscalate, OnDenied::kAsk})
    EXPECT_EQ(onDeniedFromName(onDeniedName(value)), value);
  EXPECT_FALSE(protocolFromName("TLS"));
  EXPECT_FALSE(onDeniedFromName(""));
}

}  // namespace
}  // namespace cloister::model
