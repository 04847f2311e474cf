// SPDX-License-Identifier: Apache-2.0
#include "egress/dns/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/plan/star.h"

namespace cloister::egress {
namespace {

using namespace std::literals;
using dns::Query;
using dns::Rcode;
using dns::Reply;
using dns::Type;
using testing::HasSubstr;

constexpr Type kCname{5};

model::PlanRule rule(std::string name, std::vector<std::string> dns = {}) {
  model::PlanRule out;
  out.rule = "of " + name;
  out.entry.name = std::move(name);
  out.entry.ports = {443};
  out.entry.protocol = model::Protocol::kTls;
  out.entry.dns = std::move(dns);
  return out;
}

class DnsAnswers : public ::testing::Test {
 protected:
  DnsAnswers() {
    plan_.tier = "restricted";
    plan_.rules = {rule("api.example.com"), rule("mail.example.com", {"TXT", "SRV", "MX"}),
                   rule("*.wild.example.org")};
  }

  std::string query(std::string_view name, Type type, uint16_t klass = dns::kClassIn) const {
    return dns::encodeQuery({.id = 9,
                             .recursion_desired = true,
                             .name = dns::toWire(name).value(),
                             .type = type,
                             .klass = klass,
                             .edns = true,
                             .udp_bytes = 1232});
  }

  // The reply to that query; `bytes_` has its encoding.
  Reply ask(std::string_view name, Type type, uint16_t klass = dns::kClassIn) {
    bytes_ = answer(query(name, type, klass), plan_, names_, dns::kUdpBytes, asked_);
    return bytes_.empty() ? Reply{.code = Rcode{0xffff}} : dns::readReply(bytes_).value();
  }

  std::string dataOf(std::string_view name, Type type) {
    const Reply reply = ask(name, type);
    return reply.answers.empty() ? "" : reply.answers[0].data;
  }

  // Whether the reply has the extended error "filtered".
  bool isFiltered() const { return bytes_.contains("\0\x0f"s) && bytes_.contains("\0\x11"s); }

  model::NetworkPlan plan_;
  Names names_ = Names::make(base::Network::parse(Names::kDefaultPool).value(), 8).value();
  Asked asked_;
  std::string bytes_;
};

TEST_F(DnsAnswers, GiveAnAllowedNameAnAddress) {
  const Reply reply = ask("Api.example.com", Type::kA);
  ASSERT_EQ(reply.answers.size(), 1U);
  EXPECT_EQ(reply.answers[0].data, "\xc6\x12\0\3"s);
  EXPECT_EQ(reply.answers[0].ttl, kTtlSeconds);
  EXPECT_EQ(reply.answers[0].name, *dns::toWire("Api.example.com"));
  EXPECT_TRUE(asked_.allowed);
  EXPECT_EQ(asked_.name, "api.example.com");
  EXPECT_EQ(asked_.type, "A");
  EXPECT_EQ(asked_.rule, plan_.rules.data());
  EXPECT_EQ(names_.nameOf(base::Address::parse("198.18.0.3").value()), "api.example.com");
  EXPECT_EQ(dataOf("api.example.com", Type::kA), "\xc6\x12\0\3"s);
}

TEST_F(DnsAnswers, GiveOtherAddressesOfAnAllowedNameAsNoData) {
  for (const Type type : {Type::kAaaa, Type::kHttps, Type::kSvcb}) {
    const Reply reply = ask("api.example.com", type);
    EXPECT_EQ(reply.code, Rcode::kNoError);
    EXPECT_TRUE(reply.answers.empty());
    EXPECT_TRUE(asked_.allowed) << asked_.type;
  }
  EXPECT_EQ(names_.size(), 0U);
}

TEST_F(DnsAnswers, DenyOtherNames) {
  for (const char* name : {"evil.example", "example.com", "x.api.example.com", "wild.example.org"})
    for (const Type type : {Type::kA, Type::kAaaa, Type::kTxt, Type::kHttps, kCname}) {
      const Reply reply = ask(name, type);
      EXPECT_EQ(reply.code, Rcode::kNxDomain) << name;
      EXPECT_TRUE(reply.answers.empty());
      EXPECT_TRUE(isFiltered());
      EXPECT_FALSE(asked_.allowed);
      EXPECT_FALSE(asked_.pass_on);
      EXPECT_NE(asked_.reason, "");
      EXPECT_THAT(bytes_, HasSubstr(asked_.reason.substr(0, dns::kMaxErrorText)));
    }
  EXPECT_EQ(names_.size(), 0U);
}

TEST_F(DnsAnswers, DenyNamesThatAreNoHostNames) {
  plan_.rules = {rule("*.example.com")};
  plan_.rules[0].anyone = true;
  for (const char* name :
       {"127.0.0.1", "2130706433", "a b.example.com", "x_y.example.com", "1.1"}) {
    EXPECT_EQ(ask(name, Type::kA).code, Rcode::kNxDomain) << name;
    EXPECT_FALSE(asked_.allowed);
  }
  const std::string dotted = "\5a.b.c\7example\3com\0"s;  // a dot within a label
  bytes_ = answer(dns::encodeQuery({.name = dotted, .type = Type::kA, .klass = 1}), plan_, names_,
                  512, asked_);
  EXPECT_EQ(dns::readReply(bytes_)->code, Rcode::kNxDomain);
  EXPECT_EQ(asked_.name, "a\\046b\\046c.example.com");
}

TEST_F(DnsAnswers, PassOnTypesOfTheRuleAlone) {
  for (const Type type : {Type::kTxt, Type::kMx, Type::kSrv}) {
    EXPECT_EQ(ask("mail.example.com", type).code, Rcode{0xffff});
    EXPECT_TRUE(asked_.pass_on && asked_.allowed) << asked_.type;
    EXPECT_EQ(asked_.rule, &plan_.rules[1]);
    EXPECT_EQ(ask("api.example.com", type).code, Rcode::kNoError);
    EXPECT_FALSE(asked_.pass_on || asked_.allowed);
    EXPECT_TRUE(isFiltered());
    EXPECT_THAT(asked_.reason, HasSubstr(asked_.type));
  }
  (void)ask("_imap._tcp.mail.example.com", Type::kSrv);
  EXPECT_TRUE(asked_.pass_on);
  EXPECT_EQ(asked_.name, "_imap._tcp.mail.example.com");
  for (const char* name : {"_imap._tcp._x.mail.example.com", "_0123456789abcdef.mail.example.com",
                           "imap.mail.example.com"}) {
    EXPECT_EQ(ask(name, Type::kSrv).code, Rcode::kNxDomain) << name;
    EXPECT_FALSE(asked_.pass_on);
  }
  plan_.rules[1].entry.dns = {"CNAME", "A", "AAAA"};  // no plan makes these pass
  EXPECT_EQ(ask("mail.example.com", kCname).code, Rcode::kNoError);
  EXPECT_FALSE(asked_.pass_on);
}

TEST_F(DnsAnswers, NameSyntheticAddresses) {
  (void)ask("api.example.com", Type::kA);
  EXPECT_EQ(dataOf("3.0.18.198.in-addr.arpa", Type::kPtr), *dns::toWire("api.example.com"));
  EXPECT_TRUE(asked_.allowed && asked_.local);
  EXPECT_EQ(dataOf("1.0.0.127.IN-ADDR.arpa", Type::kPtr), *dns::toWire("localhost"));
  EXPECT_EQ(ask("3.0.18.198.in-addr.arpa", Type::kTxt).code, Rcode::kNoError);
  for (const char* name :
       {"4.0.18.198.in-addr.arpa", "1.0.18.198.in-addr.arpa", "in-addr.arpa",
        "8.8.8.8.in-addr.arpa", "03.0.18.198.in-addr.arpa", "x.in-addr.arpa",
        "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.ip6.arpa",
        "1.3.0.18.198.in-addr.arpa", "data.ip6.arpa"}) {
    EXPECT_EQ(ask(name, Type::kPtr).code, Rcode::kNxDomain) << name;
    EXPECT_FALSE(asked_.allowed);
  }
}

TEST_F(DnsAnswers, KeepLocalhostLocal) {
  for (const char* name : {"localhost", "LocalHost", "db.localhost"}) {
    EXPECT_EQ(dataOf(name, Type::kA), "\x7f\0\0\1"s) << name;
    EXPECT_EQ(dataOf(name, Type::kAaaa), std::string(15, '\0') + "\1");
    EXPECT_EQ(ask(name, Type::kTxt).code, Rcode::kNoError);
    EXPECT_TRUE(asked_.local);
  }
  EXPECT_EQ(ask("notlocalhost", Type::kA).code, Rcode::kNxDomain);
}

TEST_F(DnsAnswers, LetTheProxyBeFound) {
  plan_.rules.clear();
  EXPECT_EQ(dataOf(kProxyName, Type::kA), "\xc6\x12\0\3"s);
  EXPECT_EQ(ask("x.proxy.cloister.internal", Type::kA).code, Rcode::kNxDomain);
  EXPECT_EQ(ask(kProxyName, Type::kAaaa).code, Rcode::kNoError);
}

TEST_F(DnsAnswers, RefuseTransfersAndOtherClasses) {
  for (const uint16_t type : {41, 249, 250, 251, 252, 253, 255, 0}) {
    EXPECT_EQ(ask("api.example.com", Type{type}).code, Rcode::kRefused) << type;
    EXPECT_FALSE(asked_.allowed);
  }
  for (const uint16_t klass : {0, 3, 4, 254, 255})
    EXPECT_EQ(ask("api.example.com", Type::kA, klass).code, Rcode::kRefused) << klass;
}

TEST_F(DnsAnswers, AnswerMalformedQueriesWithTheirFault) {
  const std::string good = query("api.example.com", Type::kA);
  EXPECT_EQ(answer("", plan_, names_, 512, asked_), "");
  EXPECT_FALSE(asked_.pass_on);
  bytes_ = answer(good + "x", plan_, names_, 512, asked_);
  EXPECT_EQ(dns::readReply(bytes_)->code, Rcode::kFormErr);
  std::string update = good;
  update[2] = 5 << 3;
  bytes_ = answer(update, plan_, names_, 512, asked_);
  EXPECT_EQ(dns::readReply(bytes_)->code, Rcode::kNotImp);
  EXPECT_EQ(names_.size(), 0U);
}

TEST_F(DnsAnswers, StopAtTooManyNames) {
  for (int i = 0; i < 8; ++i) {
    EXPECT_NE(dataOf("h" + std::to_string(i) + ".wild.example.org", Type::kA), "");
  }
  EXPECT_EQ(ask("h8.wild.example.org", Type::kA).code, Rcode::kServFail);
  EXPECT_FALSE(asked_.allowed);
  EXPECT_THAT(asked_.reason, HasSubstr("too many"));
  EXPECT_NE(dataOf("h7.wild.example.org", Type::kA), "");
}

TEST_F(DnsAnswers, LetNoDataIntoNamesBelowAWildcard) {
  const auto isAllowed = [&](const std::string& labels) {
    (void)ask(labels + ".wild.example.org", Type::kAaaa);
    return asked_.allowed;
  };
  EXPECT_TRUE(isAllowed("www"));
  EXPECT_TRUE(isAllowed("my-bucket.s3.eu-central-1"));
  EXPECT_TRUE(isAllowed("da39a3ee5e6b4b0d3255bfef95601890afd80709"));  // a SHA-1
  EXPECT_TRUE(isAllowed(std::string(kMaxStarLabel, 'a')));
  EXPECT_FALSE(isAllowed(std::string(kMaxStarLabel + 1, 'a')));
  EXPECT_TRUE(isAllowed("a.b.c.d"));
  EXPECT_FALSE(isAllowed("a.b.c.d.e"));
  EXPECT_FALSE(isAllowed("mzxw6ytboi4dqmrqgq3tknzyhe2dkmbx.gezdgnbvgy3tqojqmfrgg"));
  EXPECT_EQ(asked_.rule, &plan_.rules[2]);
  EXPECT_THAT(asked_.reason, HasSubstr("*.wild.example.org"));
  plan_.rules.push_back(rule("a.b.c.d.e.wild.example.org"));
  EXPECT_TRUE(isAllowed("a.b.c.d.e"));
}

TEST_F(DnsAnswers, CountNamesThatArePassedOn) {
  plan_.rules = {rule("*.wild.example.org", {"TXT"})};
  for (int i = 0; i < 8; ++i) {
    (void)ask("h" + std::to_string(i) + ".wild.example.org", Type::kTxt);
    EXPECT_TRUE(asked_.pass_on);
  }
  EXPECT_EQ(ask("h8.wild.example.org", Type::kTxt).code, Rcode::kServFail);
  EXPECT_FALSE(asked_.pass_on || asked_.allowed);
  EXPECT_EQ(ask("h8.wild.example.org", Type::kA).code, Rcode::kServFail);
}

TEST_F(DnsAnswers, PassOnRecordsOfTheAskedNameAlone) {
  const std::string asked = query("Mail.example.com", Type::kTxt);
  const Query upstream{
      .id = 77, .name = *dns::toWire("mail.example.com"), .type = Type::kTxt, .klass = 1};
  const Reply reply{.answers = {{upstream.name, Type::kTxt, 86'400, "\1x"},
                                {upstream.name, Type::kA, 60, "\x7f\0\0\1"s},
                                {*dns::toWire("evil.example"), Type::kTxt, 60, "\1y"}}};
  const std::string bytes = passOn(asked, dns::encodeReply(upstream, reply, dns::kTcpBytes), 1232);
  EXPECT_EQ(bytes.substr(0, 2), "\0\x09"s);  // the id of the asker
  const auto passed = dns::readReply(bytes);
  ASSERT_TRUE(passed);
  ASSERT_EQ(passed->answers.size(), 1U);
  EXPECT_EQ(passed->answers[0].data, "\1x");
  EXPECT_EQ(passed->answers[0].name, *dns::toWire("Mail.example.com"));
  EXPECT_EQ(passed->answers[0].ttl, kMaxPassedTtlSeconds);
}

TEST_F(DnsAnswers, SayWhenPassingOnFailed) {
  const std::string asked = query("mail.example.com", Type::kTxt);
  const auto codeOf = [](const std::string& bytes) { return dns::readReply(bytes)->code; };
  EXPECT_EQ(codeOf(passOn(asked, "", 512)), Rcode::kServFail);
  EXPECT_EQ(codeOf(passOn(asked, "garbage of a resolver", 512)), Rcode::kServFail);
  EXPECT_EQ(codeOf(failed(asked, 512)), Rcode::kServFail);
  const std::string missing =
      dns::encodeReply({.name = *dns::toWire("x"), .klass = 1}, {.code = Rcode::kNxDomain}, 512);
  EXPECT_EQ(codeOf(passOn(asked, missing, 512)), Rcode::kNxDomain);
  EXPECT_EQ(passOn("", missing, 512), "");
  EXPECT_EQ(failed("", 512), "");
}

}  // namespace
}  // namespace cloister::egress
