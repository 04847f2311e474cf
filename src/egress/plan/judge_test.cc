// SPDX-License-Identifier: Apache-2.0
#include "egress/plan/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cloister::egress {
namespace {

using model::OnDenied;
using model::Protocol;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// A rule named `name` of an entry's JSON, as policy makes it.
model::PlanRule rule(const std::string& name, std::string_view entry) {
  const auto value = base::parseJson(entry).value();
  model::PlanRule made;
  made.entry = model::readNetworkEntry(value, name, true).value();
  made.rule = name;
  made.anyone = made.entry.name == model::kAnyName;
  return made;
}

model::NetworkPlan planOf(std::vector<model::PlanRule> rules) {
  model::NetworkPlan plan;
  plan.permit = "permit_1";
  plan.tier = "restricted";
  plan.tenant = "acme";
  plan.rules = std::move(rules);
  return plan;
}

model::NetworkPlan samplePlan() {
  return planOf({
      rule("api", R"("api.example.com:443")"),
      rule("wild", R"({"name":"*.example.org","ports":[443,8443],"protocol":"tls"})"),
      rule("read", R"({"name":"www.example.com","ports":[80],"methods":["GET","HEAD"],
                       "paths":["/v1/*","/status"]})"),
      rule("write", R"({"name":"www.example.com","ports":[80],"methods":["POST"],
                        "paths":["/v1/upload"]})"),
      rule("database", R"("db.example.com:5432")"),
      rule("mail", R"({"name":"mail.example.com","ports":[25],"dns":["MX","TXT"]})"),
  });
}

Attempt lookUp(std::string_view host, std::string_view type = "A") {
  return {.host = host, .record_type = type};
}

Attempt connection(std::string_view host, uint16_t port, std::optional<Protocol> protocol = {}) {
  return {.host = host, .port = port, .protocol = protocol};
}

Attempt request(std::string_view host, std::string_view method, std::string_view path) {
  return {.host = host, .port = 80, .protocol = Protocol::kHttp, .method = method, .path = path};
}

// Servers that read such fields take another method or path than the request line has.
TEST(Judge, HeaderFieldsThatNameAnotherRequestAreJudgedToo) {
  const model::NetworkPlan plan = samplePlan();
  const auto with = [&](const std::vector<std::string>& methods,
                        const std::vector<std::string>& paths) {
    Attempt attempt = request("www.example.com", "GET", "/v1/items");
    attempt.field_methods = methods;
    attempt.field_paths = paths;
    return judge(plan, attempt);
  };
  EXPECT_TRUE(with({"GET", "HEAD"}, {"/v1/other", "/status"}).allowed);
  const Verdict method = with({"HEAD", "DELETE"}, {});
  EXPECT_FALSE(method.allowed);
  EXPECT_THAT(method.reason, HasSubstr("but not \"DELETE\", which a header field names."));
  EXPECT_THAT(method.remedy, HasSubstr("without the header field"));
  const Verdict path = with({}, {"/v2/items"});
  EXPECT_FALSE(path.allowed);
  EXPECT_THAT(path.reason, HasSubstr("but not \"/v2/items\", which a header field names."));
  EXPECT_THAT(with({}, {"/v1/../v2"}).reason, HasSubstr("in different ways"));
  Attempt free = request("db.example.com", "GET", "/x");
  free.port = 5432;
  const std::vector<std::string> any = {"DELETE"};
  free.field_methods = any;
  EXPECT_TRUE(judge(plan, free).allowed) << "a rule without methods";
}

// The name of the rule that allows; "" if none does.
std::string allowing(const model::NetworkPlan& plan, const Attempt& attempt) {
  const Verdict verdict = judge(plan, attempt);
  EXPECT_EQ(verdict.allowed, verdict.reason.empty());
  EXPECT_EQ(verdict.allowed, verdict.remedy.empty());
  return verdict.allowed ? verdict.rule->rule : "";
}

TEST(Judge, SilenceDenies) {
  for (const Attempt& attempt : {lookUp("evil.test"), connection("evil.test", 443, Protocol::kTls),
                                 request("a.test", "GET", "/")})
    EXPECT_EQ(allowing(planOf({}), attempt), "");
  EXPECT_EQ(allowing(samplePlan(), lookUp("evil.test")), "");
}

TEST(Judge, AllowsExactlyWhatARuleSays) {
  const model::NetworkPlan plan = samplePlan();
  EXPECT_EQ(allowing(plan, connection("api.example.com", 443, Protocol::kTls)), "api");
  EXPECT_EQ(allowing(plan, connection("api.example.com", 80, Protocol::kHttp)), "");
  EXPECT_EQ(allowing(plan, connection("sub.api.example.com", 443, Protocol::kTls)), "");
  EXPECT_EQ(allowing(plan, connection("example.com", 443, Protocol::kTls)), "");
  EXPECT_EQ(allowing(plan, connection("api.example.com.evil.test", 443, Protocol::kTls)), "");
  EXPECT_EQ(allowing(plan, connection("a.example.org", 8443, Protocol::kTls)), "wild");
  EXPECT_EQ(allowing(plan, connection("a.b.example.org", 443, Protocol::kTls)), "wild");
  EXPECT_EQ(allowing(plan, connection("example.org", 443, Protocol::kTls)), "");
  EXPECT_EQ(allowing(plan, connection("badexample.org", 443, Protocol::kTls)), "");
}

TEST(Judge, ALookUpIsAllowedIfAnyPortIs) {
  const model::NetworkPlan plan = samplePlan();
  EXPECT_EQ(allowing(plan, lookUp("api.example.com")), "api");
  EXPECT_EQ(allowing(plan, lookUp("a.example.org")), "wild");
  EXPECT_EQ(allowing(plan, lookUp("example.org")), "");
  for (const char* type : {"A", "AAAA", "HTTPS", "SVCB"})
    EXPECT_EQ(allowing(plan, lookUp("db.example.com", type)), "database") << type;
}

TEST(Judge, OtherRecordTypesNeedTheirRule) {
  const model::NetworkPlan plan = samplePlan();
  EXPECT_EQ(allowing(plan, lookUp("mail.example.com", "MX")), "mail");
  EXPECT_EQ(allowing(plan, lookUp("mail.example.com", "TXT")), "mail");
  for (const char* type : {"SRV", "ANY", "NS", "CNAME", "NULL", "txt", ""})
    EXPECT_EQ(allowing(plan, lookUp("mail.example.com", type)), "") << type;
  const Verdict verdict = judge(plan, lookUp("api.example.com", "TXT"));
  EXPECT_FALSE(verdict.allowed);
  EXPECT_THAT(verdict.reason, HasSubstr("but not of the type \"TXT\""));
  EXPECT_THAT(verdict.remedy, HasSubstr("`dns`"));
}

TEST(Judge, TheProtocolHasToBeTheRules) {
  const model::NetworkPlan plan = samplePlan();
  EXPECT_EQ(allowing(plan, connection("api.example.com", 443, Protocol::kHttp)), "");
  EXPECT_EQ(allowing(plan, connection("api.example.com", 443, Protocol::kTcp)), "");
  EXPECT_EQ(allowing(plan, connection("www.example.com", 80, Protocol::kTls)), "");
  for (const Protocol any : {Protocol::kTls, Protocol::kHttp, Protocol::kTcp})
    EXPECT_EQ(allowing(plan, connection("db.example.com", 5432, any)), "database");
}

TEST(Judge, WhatIsNotKnownYetIsAllowedIfARuleCouldAllowIt) {
  const model::NetworkPlan plan = samplePlan();
  EXPECT_EQ(allowing(plan, connection("api.example.com", 443)), "api");
  EXPECT_EQ(allowing(plan, connection("www.example.com", 80)), "read");
  EXPECT_EQ(allowing(plan, connection("www.example.com", 80, Protocol::kHttp)), "read");
  Attempt attempt = connection("www.example.com", 80, Protocol::kHttp);
  attempt.method = "POST";
  EXPECT_EQ(allowing(plan, attempt), "write");
  attempt.method = "DELETE";
  EXPECT_EQ(allowing(plan, attempt), "");
  EXPECT_EQ(allowing(plan, connection("www.example.com", 81)), "");
}

TEST(Judge, EachRequestIsJudged) {
  const model::NetworkPlan plan = samplePlan();
  EXPECT_EQ(allowing(plan, request("www.example.com", "GET", "/v1/users")), "read");
  EXPECT_EQ(allowing(plan, request("www.example.com", "HEAD", "/status")), "read");
  EXPECT_EQ(allowing(plan, request("www.example.com", "POST", "/v1/upload")), "write");
  EXPECT_EQ(allowing(plan, request("www.example.com", "POST", "/v1/users")), "");
  EXPECT_EQ(allowing(plan, request("www.example.com", "GET", "/v2/users")), "");
  EXPECT_EQ(allowing(plan, request("www.example.com", "GET", "/status/more")), "");
  EXPECT_EQ(allowing(plan, request("www.example.com", "GET", "/v1")), "");
  EXPECT_EQ(allowing(plan, request("www.example.com", "DELETE", "/v1/users")), "");
}

TEST(Judge, MethodsDistinguishCase) {
  const model::NetworkPlan plan = samplePlan();
  EXPECT_EQ(allowing(plan, request("www.example.com", "get", "/status")), "");
  EXPECT_EQ(allowing(plan, request("www.example.com", "Get", "/status")), "");
  EXPECT_EQ(allowing(plan, request("www.example.com", "GET ", "/status")), "");
}

TEST(Judge, AStarInAPathStandsForSlashesToo) {
  const model::NetworkPlan plan = planOf({
      rule("under", R"({"name":"a.example","ports":[80],"paths":["/v1/*"]})"),
      rule("inner", R"({"name":"b.example","ports":[80],"paths":["/v1/*/read"]})"),
  });
  EXPECT_EQ(allowing(plan, request("a.example", "GET", "/v1/a/b/c")), "under");
  EXPECT_EQ(allowing(plan, request("a.example", "GET", "/v1/")), "under");
  EXPECT_EQ(allowing(plan, request("b.example", "GET", "/v1/a/read")), "inner");
  EXPECT_EQ(allowing(plan, request("b.example", "GET", "/v1/a/b/read")), "inner");
  EXPECT_EQ(allowing(plan, request("b.example", "GET", "/v1/a/write")), "");
}

TEST(Judge, PathsThatServersReadInTwoWaysAreRefused) {
  const model::NetworkPlan plan = samplePlan();
  for (const char* path : {"/v1/../admin",
                           "/v1/%2e%2e/admin",
                           "/v1/%2E%2E/admin",
                           "/v1/.%2e/admin",
                           "/v1//admin",
                           "/v1/./x",
                           "/v1/..;/admin",
                           "/v1/x;a=b",
                           "/v1/..%2fadmin",
                           "/v1/..%5cadmin",
                           "/v1/..\\admin",
                           "/v1/%252e%252e/admin",
                           "/v1/%c0%ae%c0%ae/admin",
                           "/v1/x%00",
                           "/v1/x%0d%0a",
                           "/v1/x?y",
                           "/v1/x#y",
                           "//v1/x",
                           "http://evil.test/v1/x",
                           "*",
                           ""}) {
    const Verdict verdict = judge(plan, request("www.example.com", "GET", path));
    EXPECT_FALSE(verdict.allowed) << path;
    EXPECT_THAT(verdict.reason, HasSubstr("in different ways")) << path;
    EXPECT_THAT(verdict.remedy, HasSubstr("plain form")) << path;
    EXPECT_EQ(verdict.rule->rule, "read") << path;
  }
}

TEST(Judge, PathsAreNoMatterWhereTheRuleHasNone) {
  const auto plan = planOf({rule("all", R"({"name":"a.example","ports":[80],"methods":["GET"]})")});
  EXPECT_EQ(allowing(plan, request("a.example", "GET", "/a//b/../c")), "all");
}

TEST(Judge, TheFirstMatchingRuleDecides) {
  const model::NetworkPlan plan = planOf({
      rule("first", R"({"name":"*.example.com","ports":[443],"max_bytes":10})"),
      rule("second", R"({"name":"a.example.com","ports":[443],"max_bytes":20})"),
      rule("third", R"({"name":"a.example.com","ports":[443,444],"protocol":"tcp"})"),
  });
  EXPECT_EQ(allowing(plan, connection("a.example.com", 443, Protocol::kTls)), "first");
  EXPECT_EQ(allowing(plan, connection("a.example.com", 443, Protocol::kTcp)), "third");
  EXPECT_EQ(allowing(plan, connection("a.example.com", 444, Protocol::kTls)), "third");
}

// Twenty spellings of an address, in whichever plan.
TEST(Judge, TheFirstRuleForAPortFixesTheProtocol) {
  const model::NetworkPlan plan = planOf({
      rule("tls", R"({"name":"a.example","ports":[8080],"protocol":"tls"})"),
      rule("any", R"({"name":"a.example","ports":[8080],"protocol":"tcp"})"),
  });
  const Verdict plain = judgeConnection(plan, connection("a.example", 8080, Protocol::kHttp));
  EXPECT_FALSE(plain.allowed) << "it is told as TLS before a byte is seen";
  ASSERT_NE(plain.rule, nullptr);
  EXPECT_EQ(plain.rule->rule, "tls");
  EXPECT_TRUE(judgeConnection(plan, connection("a.example", 8080, Protocol::kTls)).allowed);
  EXPECT_TRUE(judgeConnection(plan, connection("a.example", 8080)).allowed);
  EXPECT_FALSE(judgeConnection(plan, connection("b.example", 8080, Protocol::kTls)).allowed);
}

TEST(Judge, LiteralsNeverMatchByName) {
  const model::NetworkPlan plans[] = {samplePlan(), planOf({rule("any", R"({"name":"*"})")})};
  for (const model::NetworkPlan& plan : plans) {
    for (const char* host : {"127.0.0.1",
                             "2130706433",
                             "0177.0.0.1",
                             "0x7f.1",
                             "127.1",
                             "::1",
                             "::ffff:169.254.169.254",
                             "::169.254.169.254",
                             "2002:a9fe:a9fe::",
                             "64:ff9b::a9fe:a9fe",
                             "fe80::1%lo",
                             "[::1]",
                             "203.0.113.9",
                             "169.254.169.254",
                             "0",
                             "api.example.com.",
                             "API.example.com",
                             "api.example.com:443",
                             "api.example.com@evil.test",
                             "api.example.com%00.evil.test",
                             "*.example.org",
                             "*",
                             "bücher.example",
                             ""}) {
      for (const Attempt& attempt : {lookUp(host), connection(host, 443, Protocol::kTls)}) {
        const Verdict verdict = judge(plan, attempt);
        EXPECT_FALSE(verdict.allowed) << host;
        EXPECT_EQ(verdict.rule, nullptr) << host;
        EXPECT_FALSE(verdict.reason.empty() || verdict.remedy.empty()) << host;
      }
    }
  }
  EXPECT_THAT(judge(plans[0], connection("203.0.113.9", 443)).reason, HasSubstr("is an address"));
  EXPECT_THAT(judge(plans[0], lookUp("API.example.com")).reason, HasSubstr("spelling"));
}

TEST(Judge, TheFullTierAllowsEachNameWithinItsBounds) {
  const model::NetworkPlan open = planOf({rule("any", R"({"name":"*"})")});
  EXPECT_EQ(allowing(open, lookUp("evil.test")), "any");
  EXPECT_EQ(allowing(open, lookUp("evil.test", "TXT")), "");
  EXPECT_EQ(allowing(open, connection("evil.test", 22, Protocol::kTcp)), "any");
  EXPECT_EQ(allowing(open, request("evil.test", "PUT", "/a//b")), "any");
  const model::NetworkPlan bounded =
      planOf({rule("web", R"({"name":"*","ports":[80],"protocol":"http","methods":["GET"]})")});
  EXPECT_EQ(allowing(bounded, request("evil.test", "GET", "/")), "web");
  EXPECT_EQ(allowing(bounded, request("evil.test", "PUT", "/")), "");
  EXPECT_EQ(allowing(bounded, connection("evil.test", 22)), "");
}

TEST(Judge, RulesOfTheOperatorsOwnNamesMatchAlike) {
  model::NetworkPlan plan = planOf({rule("wiki", R"("wiki.corp.example:443")")});
  plan.rules[0].internal = true;
  const Verdict verdict = judge(plan, connection("wiki.corp.example", 443));
  ASSERT_TRUE(verdict.allowed);
  EXPECT_TRUE(verdict.rule->internal) << "the dialler asks";
  EXPECT_EQ(allowing(plan, connection("10.1.0.1", 443)), "");
}

struct Sentence {
  Attempt attempt;
  const char* rule;  // "" for none
  const char* reason;
  const char* remedy;  // its part
};

TEST(Judge, SaysWhyAndHowToAsk) {
  const Sentence sentences[] = {
      {connection("evil.test", 443, Protocol::kTls), "", "No rule allows evil.test:443.",
       "add \"evil.test:443\" to network_policy.allow"},
      {lookUp("evil.test"), "", "No rule allows evil.test.",
       "add \"evil.test:443\", or the name with"},
      {connection("evil.test", 443, Protocol::kHttp), "", "No rule allows evil.test:443.",
       R"(add {"name":"evil.test","ports":[443],"protocol":"http"} to network_policy.allow)"},
      {connection("example.org", 443), "",
       "Rule \"wild\" allows the names below example.org, but not example.org itself.",
       "add \"example.org:443\""},
      {connection("api.example.com", 80), "api",
       "Rule \"api\" allows api.example.com on port 443, but not on port 80.",
       "add \"api.example.com:80\""},
      {connection("a.example.org", 80), "wild",
       "Rule \"wild\" allows a.example.org on ports 443, 8443, but not on port 80.",
       "add \"a.example.org:80\""},
      {connection("api.example.com", 443, Protocol::kHttp), "api",
       "Rule \"api\" allows api.example.com:443 with the protocol tls, and the program speaks "
       "http.",
       "Speak tls there."},
      {request("www.example.com", "PUT", "/v1/x"), "read",
       "Rule \"read\" allows GET, HEAD requests to www.example.com:80, but not \"PUT\".",
       R"({"methods":["PUT"],"name":"www.example.com","paths":["/v1/x"],"ports":[80]})"},
      {request("www.example.com", "GET", "/admin"), "read",
       "Rule \"read\" allows the paths /v1/*, /status of www.example.com:80, but not \"/admin\".",
       R"({"methods":["GET"],"name":"www.example.com","paths":["/admin"],"ports":[80]})"},
  };
  const model::NetworkPlan plan = samplePlan();
  for (const Sentence& each : sentences) {
    const Verdict verdict = judge(plan, each.attempt);
    EXPECT_EQ(verdict.reason, each.reason);
    EXPECT_THAT(verdict.remedy, HasSubstr(each.remedy)) << verdict.reason;
    EXPECT_EQ(verdict.rule == nullptr ? "" : verdict.rule->rule, each.rule) << verdict.reason;
  }
}

// The remedy's entry, granted, allows the attempt.
TEST(Judge, TheRemedyHelps) {
  const model::NetworkPlan plan = samplePlan();
  for (const Attempt& attempt :
       {connection("evil.test", 443, Protocol::kTls), connection("evil.test", 443, Protocol::kTcp),
        connection("evil.test", 8080, Protocol::kHttp), connection("evil.test", 80, Protocol::kTls),
        connection("api.example.com", 22), request("www.example.com", "PUT", "/v1/x"),
        request("www.example.com", "GET", "/admin")}) {
    const std::string remedy = judge(plan, attempt).remedy;
    const size_t start = remedy.find_first_of("\"{");
    const size_t end = remedy.find(" to network_policy.allow");
    ASSERT_LT(start, end) << remedy;
    const auto asked = base::parseJson(remedy.substr(start, end - start));
    ASSERT_TRUE(asked) << remedy;
    const auto entry = model::readNetworkEntry(*asked, "allow[0]", false);
    ASSERT_TRUE(entry) << entry.error().message;
    model::NetworkPlan wider = plan;
    wider.rules.push_back({.entry = *entry, .rule = "asked"});
    EXPECT_EQ(allowing(wider, attempt), "asked") << remedy;
  }
}

TEST(Judge, InspectedRequestsAreJudgedToo) {
  const model::NetworkPlan plan = planOf({rule(
      "api",
      R"({"name":"a.example","ports":[443],"inspect":true,"methods":["GET"],"paths":["/x"]})")});
  Attempt attempt = connection("a.example", 443, Protocol::kTls);
  EXPECT_EQ(allowing(plan, attempt), "api");
  attempt.method = "GET";
  attempt.path = "/x";
  EXPECT_EQ(allowing(plan, attempt), "api");
  attempt.method = "PUT";
  EXPECT_EQ(allowing(plan, attempt), "");
  EXPECT_THAT(judge(plan, attempt).remedy, HasSubstr("add \"a.example:443\""));
  attempt.method = "GET";
  attempt.path = "/y";
  EXPECT_EQ(allowing(plan, attempt), "");
}

TEST(Judge, SentencesAreBoundedAndSafeToShow) {
  const model::NetworkPlan plan = samplePlan();
  const std::string path = "/\x1b[2J" + std::string(100'000, 'a');
  const Verdict odd = judge(plan, request("www.example.com", "GET", path));
  EXPECT_THAT(odd.reason, HasSubstr("\\x1b"));
  EXPECT_LT(odd.reason.size(), 1000U);
  const Verdict method =
      judge(plan, request("www.example.com", std::string(100'000, '\n'), "/v1/x"));
  EXPECT_THAT(method.reason, Not(HasSubstr("\n")));
  EXPECT_LT(method.reason.size(), 1000U);
  EXPECT_EQ(method.remedy, "No entry can allow this method: send another one, in upper case.");
  EXPECT_LT(
      judge(plan, request("www.example.com", "GET", "/" + std::string(100'000, 'a'))).remedy.size(),
      1000U);
  EXPECT_LT(judge(plan, lookUp(std::string(100'000, 'a'))).reason.size(), 1000U);
}

TEST(Judge, TheNearestRuleSaysWhatHappensToARefusal) {
  model::NetworkPlan plan = planOf({
      rule("plain", R"("api.example.com:443")"),
      rule("asking", R"({"name":"www.example.com","ports":[80],"on_denied":"ask",
                         "methods":["GET"],"paths":["/v1/*"]})"),
  });
  plan.on_denied = OnDenied::kEscalate;
  const auto answer = [&](const Attempt& attempt) { return judge(plan, attempt).on_denied; };
  EXPECT_EQ(answer(connection("evil.test", 443)), OnDenied::kEscalate);
  EXPECT_EQ(answer(lookUp("evil.test")), OnDenied::kEscalate);
  EXPECT_EQ(answer(connection("api.example.com", 80)), OnDenied::kEscalate);
  EXPECT_EQ(answer(connection("www.example.com", 443)), OnDenied::kAsk);
  EXPECT_EQ(answer(request("www.example.com", "PUT", "/v1/x")), OnDenied::kAsk);
  EXPECT_EQ(answer(request("www.example.com", "GET", "/admin")), OnDenied::kAsk);
}

TEST(Judge, NobodyIsAskedAboutWhatCannotBeGranted) {
  model::NetworkPlan plan = samplePlan();
  plan.on_denied = OnDenied::kAsk;
  const auto answer = [&](const Attempt& attempt) { return judge(plan, attempt).on_denied; };
  EXPECT_EQ(answer(connection("203.0.113.9", 443)), OnDenied::kDeny);
  EXPECT_EQ(answer(lookUp("EVIL.test")), OnDenied::kDeny);
  EXPECT_EQ(answer(lookUp("api.example.com", "TXT")), OnDenied::kDeny);
  EXPECT_EQ(answer(request("www.example.com", "GET", "/v1/../admin")), OnDenied::kDeny);
}

TEST(Judge, PortsOfAPlan) {
  EXPECT_THAT(portsOf(samplePlan()), ElementsAre(25, 80, 443, 5432, 8443));
  EXPECT_THAT(portsOf(planOf({})), IsEmpty());
  EXPECT_THAT(portsOf(planOf({rule("api", R"("a.example:443")"), rule("any", R"({"name":"*"})")})),
              IsEmpty());
  EXPECT_THAT(portsOf(planOf({rule("web", R"({"name":"*","ports":[443]})")})), ElementsAre(443));
}

}  // namespace
}  // namespace cloister::egress
