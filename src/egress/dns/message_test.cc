// SPDX-License-Identifier: Apache-2.0
#include "egress/dns/message.h"

#include <random>

#include <gtest/gtest.h>

#include "base/big_endian.h"

namespace cloister::egress::dns {
namespace {

using namespace std::literals;

// A query of "Api.example.com" for its address, as glibc sends it.
const std::string kQuery = "\x12\x34\x01\0\0\1\0\0\0\0\0\0\3Api\7example\3com\0\0\1\0\1"s;
const std::string kOpt = "\0\0\x29\x04\xd0\0\0\0\0\0\0"s;  // 1232 bytes, no options

// The query with the bytes at `at` replaced.
std::string with(size_t at, std::string_view bytes, std::string query = kQuery) {
  return query.replace(at, bytes.size(), bytes);
}

std::string withOpt(std::string_view opt = kOpt) {
  return with(11, "\1"sv) + std::string(opt);
}

Rcode faultOf(std::string_view bytes) {
  const auto query = readQuery(bytes);
  return query ? query->fault : Rcode{0xffff};
}

Query askFor(std::string_view name, Type type) {
  return {
      .id = 7, .recursion_desired = true, .name = *toWire(name), .type = type, .klass = kClassIn};
}

TEST(DnsQuery, IsRead) {
  const auto query = readQuery(kQuery);
  ASSERT_TRUE(query);
  EXPECT_EQ(query->fault, Rcode::kNoError);
  EXPECT_EQ(query->id, 0x1234);
  EXPECT_TRUE(query->recursion_desired);
  EXPECT_FALSE(query->edns);
  EXPECT_EQ(query->name, "\3Api\7example\3com\0"s);
  EXPECT_EQ(toText(query->name), "api.example.com");
  EXPECT_EQ(query->type, Type::kA);
  EXPECT_EQ(query->klass, kClassIn);
  EXPECT_EQ(query->udp_bytes, 512);
}

TEST(DnsQuery, ReadsEdns) {
  const auto query = readQuery(withOpt("\0\0\x29\x10\0\0\0\x80\0\0\x05\0\x0a\0\1x"s));
  ASSERT_TRUE(query);
  EXPECT_EQ(query->fault, Rcode::kNoError);
  EXPECT_TRUE(query->edns);
  EXPECT_TRUE(query->dnssec_ok);
  EXPECT_EQ(query->udp_bytes, 4096);
  EXPECT_EQ(readQuery(withOpt("\0\0\x29\0\x10\0\0\0\0\0\0"s))->udp_bytes, 512);
}

TEST(DnsQuery, WithoutAReplyIsDropped) {
  for (size_t size = 0; size < 12; ++size)
    EXPECT_FALSE(readQuery(kQuery.substr(0, size))) << size;
  EXPECT_FALSE(readQuery(with(2, "\x81"sv)));  // a reply: answering replies never ends
}

TEST(DnsQuery, IsRefusedIfMalformed) {
  for (size_t size = 12; size < kQuery.size(); ++size)
    EXPECT_EQ(faultOf(kQuery.substr(0, size)), Rcode::kFormErr) << size;
  EXPECT_EQ(faultOf(kQuery + "x"), Rcode::kFormErr);
  EXPECT_EQ(faultOf(with(5, "\0"sv)), Rcode::kFormErr);                      // no question
  EXPECT_EQ(faultOf(with(5, "\2"sv) + kQuery.substr(12)), Rcode::kFormErr);  // two
  EXPECT_EQ(faultOf(with(7, "\1"sv)), Rcode::kFormErr);                      // an answer
  EXPECT_EQ(faultOf(with(9, "\1"sv)), Rcode::kFormErr);         // a record of authority
  EXPECT_EQ(faultOf(with(11, "\1"sv)), Rcode::kFormErr);        // a record that is not there
  EXPECT_EQ(faultOf(with(2, "\x03"sv)), Rcode::kFormErr);       // truncated
  EXPECT_EQ(faultOf(with(3, "\3"sv)), Rcode::kFormErr);         // a code
  EXPECT_EQ(faultOf(with(12, "\xc0\x0c"sv)), Rcode::kFormErr);  // a pointer to itself
  EXPECT_EQ(faultOf(with(12, "\x41"sv)), Rcode::kFormErr);      // a label of a reserved kind
  const std::string two_opts = with(11, "\2"sv) + kOpt + kOpt;
  EXPECT_EQ(faultOf(two_opts), Rcode::kFormErr);
  EXPECT_EQ(faultOf(withOpt("\1x\0\0\x29\x04\xd0\0\0\0\0\0\0"s)), Rcode::kFormErr);  // owner
  EXPECT_EQ(faultOf(withOpt("\0\0\x29\x04\xd0\0\0\0\0\0\1"s)), Rcode::kFormErr);     // length
  EXPECT_EQ(faultOf(withOpt("\0\0\1\0\1\0\0\0\0\0\0"s)), Rcode::kFormErr);  // another record
  const std::string padded = withOpt("\0\0\x29\x04\xd0\0\0\0\0\x03\xe8"s + std::string(1000, '\0'));
  EXPECT_EQ(faultOf(padded), Rcode::kFormErr);
}

TEST(DnsQuery, OfAnotherKindIsNotImplemented) {
  for (const char opcode : {1, 2, 4, 5, 6, 15}) {
    const auto query = readQuery(with(2, std::string(1, static_cast<char>(opcode << 3))));
    ASSERT_TRUE(query);
    EXPECT_EQ(query->fault, Rcode::kNotImp) << int{opcode};
    EXPECT_EQ(query->opcode, opcode);
    const std::string reply = encodeReply(*query, {.code = query->fault}, kUdpBytes);
    EXPECT_EQ(reply.size(), 12);  // the body of such a message is not read
    EXPECT_EQ(reply[2] >> 3 & 0xf, opcode);
  }
}

TEST(DnsQuery, WithASignatureIsRefused) {
  const std::string tsig = "\3key\0\0\xfa\0\xff\0\0\0\0\0\2xy"s;
  EXPECT_EQ(faultOf(withOpt(tsig)), Rcode::kRefused);
  EXPECT_EQ(faultOf(with(11, "\2"sv) + kOpt + tsig), Rcode::kRefused);
  EXPECT_EQ(faultOf(withOpt("\0\0\x18\0\xff\0\0\0\0\0\0"s)), Rcode::kRefused);  // SIG(0)
  EXPECT_EQ(faultOf(withOpt(tsig.substr(0, tsig.size() - 1))), Rcode::kFormErr);
}

TEST(DnsQuery, OfALaterEdnsHearsTheVersion) {
  const auto query = readQuery(withOpt("\0\0\x29\x04\xd0\0\1\0\0\0\0"s));
  ASSERT_TRUE(query);
  EXPECT_EQ(query->fault, Rcode::kBadVers);
  const std::string reply = encodeReply(*query, {.code = query->fault}, kUdpBytes);
  EXPECT_EQ(reply[3] & 0xf, 0);
  EXPECT_EQ(reply[reply.size() - 6], 1);  // the upper half of 16
}

TEST(DnsNames, HaveBounds) {
  EXPECT_EQ(toWire("a.b"), "\1a\1b\0"s);
  EXPECT_EQ(toWire(""), "\0"s);
  EXPECT_TRUE(toWire(std::string(63, 'a')));
  EXPECT_FALSE(toWire(std::string(64, 'a')));
  for (const char* name : {".", "a.", ".a", "a..b"})
    EXPECT_FALSE(toWire(name)) << name;
  const std::string label(49, 'a');
  const std::string most = label + "." + label + "." + label + "." + label + "." + label;  // 249
  EXPECT_TRUE(toWire(most + ".aaa"));
  EXPECT_FALSE(toWire(most + ".aaaa"));
  EXPECT_EQ(toText("\0"s), ".");
  EXPECT_EQ(toText("\4a.B\0\1\xff\0"s), "a\\046b\\000.\\255");
}

TEST(DnsReply, EchoesTheQuestionAndItsCase) {
  const auto query = readQuery(kQuery);
  const Reply reply{.answers = {{query->name, Type::kA, 10, "\xc6\x12\0\3"s}}};
  EXPECT_EQ(encodeReply(*query, reply, kUdpBytes),
            "\x12\x34\x81\x80\0\1\0\1\0\0\0\0\3Api\7example\3com\0\0\1\0\1"
            "\xc0\x0c\0\1\0\1\0\0\0\x0a\0\4\xc6\x12\0\3"s);
}

TEST(DnsReply, SaysWhyToAskersWithEdns) {
  const Reply reply{.code = Rcode::kNxDomain, .extended_error = kFiltered, .error_text = "denied"};
  const std::string with_edns = encodeReply(*readQuery(withOpt()), reply, kUdpBytes);
  EXPECT_EQ(with_edns[3] & 0xf, 3);
  EXPECT_EQ(with_edns[11], 1);
  EXPECT_TRUE(
      with_edns.ends_with("\0\0\x29\x04\xd0\0\0\0\0\0\x0c\0\x0f\0\x08\0\x11"
                          "denied"s));
  const std::string without = encodeReply(*readQuery(kQuery), reply, kUdpBytes);
  EXPECT_EQ(without[11], 0);
  EXPECT_EQ(without.size(), kQuery.size());
}

TEST(DnsReply, CutsALongReason) {
  Query query = askFor(std::string(60, 'a') + "." + std::string(60, 'b') + "." +
                           std::string(60, 'c') + "." + std::string(60, 'd'),
                       Type::kA);
  query.edns = true;
  const Reply reply{.extended_error = kFiltered, .error_text = std::string(1000, 'x')};
  const std::string bytes = encodeReply(query, reply, 512);
  EXPECT_LE(bytes.size(), 512U);
  EXPECT_EQ(bytes[2] & 2, 0);
  EXPECT_EQ(std::ranges::count(bytes, 'x'), static_cast<ptrdiff_t>(kMaxErrorText));
}

TEST(DnsReply, IsTruncatedToTheTransport) {
  Query query = askFor("example.com", Type::kTxt);
  Reply reply;
  for (int i = 0; i < 10; ++i)
    reply.answers.push_back({query.name, Type::kTxt, 5, "\x63" + std::string(99, 'x')});
  const auto isCut = [&](size_t most) {
    const std::string bytes = encodeReply(query, reply, most);
    EXPECT_LE(bytes.size(), most);
    const bool cut = (bytes[2] & 2) != 0;
    EXPECT_EQ(readReply(bytes)->answers.size(), cut ? 0U : 10U);
    return cut;
  };
  EXPECT_FALSE(isCut(kTcpBytes));
  EXPECT_TRUE(isCut(kUdpBytes));  // 512 without EDNS
  query.edns = true;
  query.udp_bytes = 4096;
  EXPECT_FALSE(isCut(kUdpBytes));
  EXPECT_TRUE(isCut(1000));
  query.udp_bytes = 1100;
  EXPECT_TRUE(isCut(kUdpBytes));
}

// A reply for example.com with one record, after the question (29 bytes).
std::string replyWith(std::string_view record) {
  return "\0\7\x81\x80\0\1\0\1\0\0\0\0\7example\3com\0\0\x0f\0\1"s + std::string(record);
}

TEST(DnsReply, IsReadWithCompressedNames) {
  const auto mx = readReply(replyWith("\xc0\x0c\0\x0f\0\1\0\0\0\x3c\0\x09\0\x0a\4mail\xc0\x0c"s));
  ASSERT_TRUE(mx) << mx.error().message;
  ASSERT_EQ(mx->answers.size(), 1U);
  EXPECT_EQ(toText(mx->answers[0].name), "example.com");
  EXPECT_EQ(mx->answers[0].data, "\0\x0a\4mail\7example\3com\0"s);
  EXPECT_EQ(mx->answers[0].ttl, 60U);
  const auto srv = readReply(replyWith("\xc0\x14\0\x21\0\1\0\0\0\0\0\x0a\0\1\0\2\0\3\1a\xc0\x0c"s));
  ASSERT_TRUE(srv) << srv.error().message;
  EXPECT_EQ(toText(srv->answers[0].name), "com");
  EXPECT_EQ(srv->answers[0].data, "\0\1\0\2\0\3\1a\7example\3com\0"s);
}

TEST(DnsReply, IsRefusedIfMalformed) {
  const std::string good = replyWith("\xc0\x0c\0\x10\0\1\0\0\0\0\0\2\1x"s);
  ASSERT_TRUE(readReply(good));
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(readReply(good.substr(0, size))) << size;
  EXPECT_FALSE(readReply(good + "x"));
  EXPECT_FALSE(readReply(with(2, "\1"sv, good)));    // a query
  EXPECT_FALSE(readReply(with(6, "\1\0"sv, good)));  // more records than anyone sends
  EXPECT_FALSE(readReply(std::string(70'000, '\0')));
  for (const char* owner : {"\xc0\x1d", "\xc0\x1e", "\xff\xff", "\xc0\x0b", "\x80\x0c", "\x40\x0c"})
    EXPECT_FALSE(readReply(replyWith(std::string(owner, 2) + "\0\x10\0\1\0\0\0\0\0\2\1x"s)));
  // The name of the record ends in a pointer to its own first label.
  EXPECT_FALSE(readReply(replyWith("\1a\xc0\x1d\0\x10\0\1\0\0\0\0\0\2\1x"s)));
  // Data of MX whose name ends before, or goes on behind, the data.
  EXPECT_FALSE(readReply(replyWith("\xc0\x0c\0\x0f\0\1\0\0\0\0\0\4\0\1\0x"s)));
  EXPECT_FALSE(readReply(replyWith("\xc0\x0c\0\x0f\0\1\0\0\0\0\0\4\0\1\2a"s)));
  EXPECT_FALSE(readReply(replyWith("\xc0\x0c\0\x0f\0\1\0\0\0\0\0\1\0"s)));
}

TEST(DnsReply, FollowsPointersThatDescend) {
  std::string chain;  // in the data of a first record: each pointer points to the one before
  constexpr size_t kChain = 29 + 11;
  for (size_t i = 0; i < 200; ++i) {
    const size_t target = i == 0 ? 12 : kChain + 2 * (i - 1);
    chain += static_cast<char>(0xc0 | target >> 8);
    chain += static_cast<char>(target & 0xff);
  }
  base::BigEndianWriter records;
  records.raw("\0\0\x10\0\1\0\0\0\0"sv);
  records.u16(static_cast<uint16_t>(chain.size()));
  records.raw(chain);
  records.u16(static_cast<uint16_t>(0xc000 | (kChain + chain.size() - 2)));
  records.raw("\0\x10\0\1\0\0\0\0\0\2\1x"sv);
  const auto reply = readReply(with(7, "\2"sv, replyWith(records.take())));
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(toText(reply->answers.at(1).name), "example.com");
}

// --- properties

std::string randomName(std::mt19937& random) {
  std::string name;
  for (size_t labels = random() % 5; labels > 0; --labels) {
    if (!name.empty()) name += '.';
    name += std::string(1 + random() % 40, static_cast<char>('a' + random() % 26));
  }
  return name;
}

TEST(DnsProperties, WrittenQueriesAndRepliesAreReadAsTheSame) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    Query query = askFor(randomName(random), Type{static_cast<uint16_t>(random())});
    query.edns = random() % 2 == 0;
    query.dnssec_ok = query.edns && random() % 2 == 0;
    query.checking_disabled = random() % 2 == 0;
    if (query.edns) query.udp_bytes = static_cast<uint16_t>(512 + random() % 4000);
    const auto read = readQuery(encodeQuery(query));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->fault, Rcode::kNoError);
    EXPECT_EQ(encodeQuery(*read), encodeQuery(query));
    Reply reply{.code = Rcode{static_cast<uint16_t>(random() % 6)}};
    for (size_t i = random() % 5; i > 0; --i) {
      const bool mx = random() % 2 == 0;
      const std::string data = mx ? "\0\1"s + *toWire(randomName(random)) : "\3abc";
      const auto owner = random() % 2 == 0 ? query.name : *toWire(randomName(random));
      reply.answers.push_back(
          {owner, mx ? Type::kMx : Type::kTxt, static_cast<uint32_t>(random()), data});
    }
    const auto back = readReply(encodeReply(query, reply, kTcpBytes));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->code, reply.code);
    EXPECT_EQ(back->answers, reply.answers);
  }
}

TEST(DnsProperties, ChangedBytesNeverLeadOutOfBounds) {
  std::mt19937 random(2);
  const std::string reply = replyWith("\xc0\x0c\0\x0f\0\1\0\0\0\x3c\0\x09\0\x0a\4mail\xc0\x0c"s);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = random() % 2 == 0 ? withOpt() : reply;
    for (size_t i = 1 + random() % 4; i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    bytes.resize(random() % 4 == 0 ? random() % bytes.size() : bytes.size());
    if (const auto query = readQuery(bytes)) {
      EXPECT_LE(encodeReply(*query, {.code = query->fault}, 512).size(), 512U);
    }
    if (const auto read = readReply(bytes)) {
      EXPECT_LE(read->answers.size(), kMaxRecords);
    }
  }
}

}  // namespace
}  // namespace cloister::egress::dns
