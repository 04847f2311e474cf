// SPDX-License-Identifier: Apache-2.0
#include "egress/dns/answers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "egress/plan/judge.h"
#include "egress/plan/star.h"

namespace cloister::egress {
namespace {

using dns::Query;
using dns::Rcode;
using dns::Reply;
using dns::Type;

constexpr std::string_view kReverseV4 = ".in-addr.arpa";
constexpr std::string_view kReverseV6 = ".ip6.arpa";
constexpr std::string_view kLocalhost = "localhost";
constexpr uint32_t kLoopback = 0x7f000001;

// The types that a rule's `dns` may name. A plan cannot widen this list: addresses and service
// bindings of the real host must stay unknown inside.
constexpr std::array kPassed = {Type::kTxt, Type::kSrv, Type::kMx};

bool isPassed(Type type) {
  return std::ranges::find(kPassed, type) != kPassed.end();
}

// Types that stand for many types, for a transfer or for a transaction (RFC 6895 §3.1), and OPT.
bool isMeta(Type type) {
  constexpr uint16_t kFirst = 128;
  constexpr uint16_t kLast = 255;
  const uint16_t number = std::to_underlying(type);
  return type == Type::kOpt || number == 0 || (number >= kFirst && number <= kLast);
}

std::string addressData(uint32_t number) {
  std::string data;
  for (const int shift : {24, 16, 8, 0}) {
    data += static_cast<char>(number >> shift & 0xff);
  }
  return data;
}

Reply withRecord(const Query& query, std::string data) {
  return {
      .answers = {
          {.name = query.name, .type = query.type, .ttl = kTtlSeconds, .data = std::move(data)}}};
}

// A reply with a code and a reason, which also becomes the reason of the record.
Reply refusal(Rcode code, Asked& asked, std::string reason) {
  asked.reason = std::move(reason);
  return {.code = code, .extended_error = dns::kFiltered, .error_text = asked.reason};
}

bool isLocalhost(std::string_view name) {
  return name == kLocalhost ||
         (name.ends_with(kLocalhost) && name[name.size() - kLocalhost.size() - 1] == '.');
}

// RFC 6761 §6.3: such a name never leaves the machine, and its address is the loopback address.
Reply answerLocalhost(const Query& query, Asked& asked) {
  asked.allowed = asked.local = true;
  constexpr size_t kV6Bytes = 16;
  if (query.type == Type::kA) return withRecord(query, addressData(kLoopback));
  if (query.type != Type::kAaaa) return {};
  return withRecord(query, std::string(kV6Bytes - 1, '\0') + '\1');
}

// The address of "4.3.2.1.in-addr.arpa" (RFC 1035 §3.5); nullopt for any other name.
std::optional<base::Address> reverseAddress(std::string_view name) {
  if (!name.ends_with(kReverseV4)) return std::nullopt;
  name.remove_suffix(kReverseV4.size());
  std::string text;
  while (!name.empty()) {
    const size_t dot = name.rfind('.');
    const size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
    text += text.empty() ? "" : ".";
    text += name.substr(begin);
    name = name.substr(0, begin == 0 ? 0 : dot);
  }
  const auto address = base::Address::parse(text);
  if (!address || !address->isV4() || address->text() != text) return std::nullopt;
  return address;
}

Reply answerReverse(const Query& query, const Names& names, Asked& asked) {
  asked.local = true;
  const auto address = reverseAddress(asked.name);
  std::optional<std::string_view> name;
  if (address) name = names.nameOf(*address);
  if (address && address->v4() == kLoopback) name = kLocalhost;
  const auto wire = name ? dns::toWire(*name) : std::nullopt;
  if (!wire) {
    asked.reason = "No name was looked up that has this address.";
    return {.code = Rcode::kNxDomain};
  }
  asked.allowed = true;
  if (query.type != Type::kPtr) return {};
  return withRecord(query, *wire);
}

// The host whose rule decides about a name like "_imap._tcp.example.com" (RFC 8552), for the types
// whose names have such labels. Longer labels than a service has (RFC 6335 §5.1) are not of a
// service, and make no host name.
std::string_view hostOf(std::string_view name, Type type) {
  constexpr size_t kMaxServiceLabels = 2;
  constexpr size_t kMaxServiceLabel = 16;
  for (size_t i = 0; i < kMaxServiceLabels && isPassed(type) && name.starts_with('_'); ++i) {
    const size_t dot = name.find('.');
    if (dot > kMaxServiceLabel) break;
    name.remove_prefix(dot + 1);
  }
  return name;
}

// Only the one spelling of a host name is looked up, so that no part of the service reads a name
// as an address.
bool isHost(std::string_view name) {
  const auto host = model::hostName(name);
  return host && *host == name;
}

// Whether the host may be looked up, with the type `record_type`.
Verdict judgeHost(const model::NetworkPlan& plan, std::string_view host,
                  std::string_view record_type) {
  Verdict verdict = judge(plan, {.host = host, .record_type = record_type});
  if (!verdict.allowed) return verdict;
  verdict.reason = dataIn(plan, verdict, host);
  verdict.allowed = verdict.reason.empty();
  return verdict;
}

Reply tooManyNames(Asked& asked) {
  asked.allowed = false;
  return refusal(Rcode::kServFail, asked, "The sandbox looked up too many different names.");
}

Reply answerAddress(const Query& query, Names& names, Asked& asked) {
  if (query.type != Type::kA) return {};
  const auto address = names.addressOf(asked.name);
  if (!address) return tooManyNames(asked);
  return withRecord(query, addressData(address->v4()));
}

// Any other type of a name, by rule. Such a query leaves with the name in it, so the name takes one
// of the places of a door, although nobody connects to its address.
Reply answerPassed(const model::NetworkPlan& plan, const Query& query, Names& names, Asked& asked) {
  const Verdict verdict = judgeHost(plan, hostOf(asked.name, query.type), asked.type);
  if (verdict.allowed && isPassed(query.type)) {
    if (!names.addressOf(asked.name)) return tooManyNames(asked);
    asked.pass_on = true;
    asked.rule = verdict.rule;
    return {};
  }
  asked.allowed = false;
  return refusal(Rcode::kNoError, asked,
                 "No rule allows records of the type " + asked.type + " of " + asked.name + ".");
}

Reply answerName(const model::NetworkPlan& plan, const Query& query, Names& names, Asked& asked) {
  if (asked.name == kProxyName) {
    asked.allowed = asked.local = true;
    return answerAddress(query, names, asked);
  }
  const std::string_view host = hostOf(asked.name, query.type);
  if (!isHost(host)) {
    return refusal(Rcode::kNxDomain, asked, "The name is not spelled as a host name.");
  }
  const Verdict verdict = judgeHost(plan, host, "A");
  asked.allowed = verdict.allowed;
  asked.rule = verdict.rule;
  if (!verdict.allowed) return refusal(Rcode::kNxDomain, asked, verdict.reason);
  switch (query.type) {
    case Type::kA:
    case Type::kAaaa:
    case Type::kHttps:
    case Type::kSvcb:
      return answerAddress(query, names, asked);
    default:
      return answerPassed(plan, query, names, asked);
  }
}

Reply answerQuery(const model::NetworkPlan& plan, const Query& query, Names& names, Asked& asked) {
  if (query.fault != Rcode::kNoError) {
    asked.reason = "The query is malformed, or of a kind that is not answered.";
    return {.code = query.fault};
  }
  if (query.klass != dns::kClassIn || isMeta(query.type)) {
    return refusal(Rcode::kRefused, asked, "Queries of this class or type are not answered.");
  }
  if (isLocalhost(asked.name)) return answerLocalhost(query, asked);
  if (asked.name.ends_with(kReverseV4) || asked.name.ends_with(kReverseV6)) {
    return answerReverse(query, names, asked);
  }
  return answerName(plan, query, names, asked);
}

}  // namespace

std::string answer(std::string_view query, const model::NetworkPlan& plan, Names& names,
                   size_t most_bytes, Asked& asked) {
  asked = {};
  const auto read = dns::readQuery(query);
  if (!read) {
    asked.reason = "The message is no query.";
    return "";
  }
  if (!read->name.empty()) {
    asked.name = dns::toText(read->name);
    asked.type = dns::typeName(read->type);
  }
  const Reply reply = answerQuery(plan, *read, names, asked);
  if (asked.pass_on) return "";
  return dns::encodeReply(*read, reply, most_bytes);
}

std::string passOn(std::string_view query, std::string_view reply, size_t most_bytes) {
  const auto read = dns::readQuery(query);
  if (!read || read->fault != Rcode::kNoError) return "";
  auto known = dns::readReply(reply);
  const bool usable = known && (known->code == Rcode::kNoError || known->code == Rcode::kNxDomain);
  if (!usable) return failed(query, most_bytes);
  std::erase_if(known->answers, [&](const dns::Record& record) {
    return record.type != read->type || dns::toText(record.name) != dns::toText(read->name);
  });
  for (dns::Record& record : known->answers) {
    record.name = read->name;
    record.ttl = std::min(record.ttl, kMaxPassedTtlSeconds);
  }
  known->extended_error.reset();
  return dns::encodeReply(*read, *known, most_bytes);
}

std::string failed(std::string_view query, size_t most_bytes) {
  const auto read = dns::readQuery(query);
  if (!read) return "";
  return dns::encodeReply(*read, {.code = Rcode::kServFail}, most_bytes);
}

}  // namespace cloister::egress
