// SPDX-License-Identifier: Apache-2.0
// DNS queries of a sandbox, and the same bytes as a resolver's reply. An answer is a reply to its
// query within the bounds of its transport, no address outside the pool leaves, and a name that no
// rule allows gets none. A written query or reply is read as the same.
#include "egress/dns/answers.h"

#include "require.h"

using namespace cloister;
using egress::dns::Query;
using egress::dns::Rcode;
using egress::dns::Type;

namespace {

model::NetworkPlan makePlan() {
  model::NetworkPlan plan;
  plan.tier = "restricted";
  for (const char* name : {"api.example.com", "example.com", "*.wild.example.org"}) {
    model::PlanRule rule;
    rule.rule = name;
    rule.entry.name = name;
    rule.entry.ports = {443};
    rule.entry.dns = {"TXT", "SRV", "MX"};
    plan.rules.push_back(std::move(rule));
  }
  return plan;
}

bool isAllowed(const std::string& name) {
  return name == "api.example.com" || name == "example.com" || name == egress::kProxyName ||
         name.ends_with(".wild.example.org");
}

void requireSame(const Query& a, const Query& b) {
  REQUIRE(a.id == b.id && a.opcode == b.opcode && a.name == b.name && a.type == b.type);
  REQUIRE(a.klass == b.klass && a.edns == b.edns && a.udp_bytes == b.udp_bytes);
  REQUIRE(a.dnssec_ok == b.dnssec_ok && a.checking_disabled == b.checking_disabled);
}

void checkQuery(std::string_view bytes, size_t most_bytes) {
  static const model::NetworkPlan plan = makePlan();
  auto names = egress::Names::make(base::Network::parse(egress::Names::kDefaultPool).value(), 8);
  egress::Asked asked;
  const std::string reply = egress::answer(bytes, plan, *names, most_bytes, asked);
  const auto query = egress::dns::readQuery(bytes);
  REQUIRE(query || reply.empty());
  REQUIRE(reply.empty() == (!query || asked.pass_on));
  if (!query) return;
  if (query->fault == Rcode::kNoError)
    requireSame(*query, *egress::dns::readQuery(encodeQuery(*query)));
  REQUIRE(!asked.pass_on || (asked.allowed && asked.rule != nullptr));
  if (reply.empty()) return;
  REQUIRE(reply.size() <= most_bytes && reply.substr(0, 2) == bytes.substr(0, 2));
  const auto read = egress::dns::readReply(reply);
  REQUIRE(read.has_value());
  REQUIRE(read->answers.size() <= 1);
  for (const auto& record : read->answers) {
    REQUIRE(record.name == query->name && record.type == query->type);
    REQUIRE(asked.allowed);
    if (record.type == Type::kA && !asked.local) REQUIRE(isAllowed(asked.name));
    if (record.type == Type::kA) REQUIRE(record.data[0] == '\xc6' || record.data[0] == '\x7f');
  }
}

void checkReply(std::string_view bytes, size_t most_bytes) {
  const Query query{
      .id = 1, .name = *egress::dns::toWire("Example.com"), .type = Type::kTxt, .klass = 1};
  const std::string passed = egress::passOn(encodeQuery(query), bytes, most_bytes);
  REQUIRE(!passed.empty() && passed.size() <= most_bytes);
  const auto read = egress::dns::readReply(bytes);
  if (!read) return;
  const std::string written = encodeReply(query, *read, egress::dns::kTcpBytes);
  const auto again = egress::dns::readReply(written);
  REQUIRE(again.has_value());
  const bool whole = (static_cast<uint8_t>(written[2]) & 2) == 0;
  REQUIRE(!whole || again->answers == read->answers);
  for (const auto& record : read->answers)
    (void)egress::dns::toText(record.name);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const size_t most : {size_t{512}, egress::dns::kUdpBytes, egress::dns::kTcpBytes}) {
    checkQuery(bytes, most);
    checkReply(bytes, most);
  }
  return 0;
}
