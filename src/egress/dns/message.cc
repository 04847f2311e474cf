// SPDX-License-Identifier: Apache-2.0
#include "egress/dns/message.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/big_endian.h"

namespace cloister::egress::dns {
namespace {

using base::BigEndianReader;
using base::BigEndianWriter;

constexpr size_t kHeaderBytes = 12;
constexpr size_t kMaxLabel = 63;
constexpr size_t kMaxName = 255;  // on the wire
constexpr uint16_t kPointer = 0xc000;
constexpr uint16_t kQuestionPointer = kPointer | kHeaderBytes;  // where a question begins
constexpr uint16_t kMinUdp = 512;  // RFC 1035 §4.2.1; smaller bounds count as this one (RFC 6891)
constexpr uint16_t kOptionExtendedError = 15;
constexpr uint16_t kDo = 0x8000;  // of an OPT record's flags

// The flags of a header (RFC 1035 §4.1.1, RFC 4035 §3.2).
constexpr uint16_t kQr = 0x8000;
constexpr uint16_t kTc = 0x0200;
constexpr uint16_t kRd = 0x0100;
constexpr uint16_t kRa = 0x0080;
constexpr uint16_t kCd = 0x0010;
constexpr int kOpcodeShift = 11;
constexpr uint16_t kOpcodeMask = 0xf;
constexpr uint16_t kRcodeMask = 0xf;

constexpr auto kTypeNames = std::to_array<std::pair<uint16_t, std::string_view>>({
    {1, "A"},      {2, "NS"},     {5, "CNAME"},  {6, "SOA"},    {12, "PTR"},
    {15, "MX"},    {16, "TXT"},   {28, "AAAA"},  {33, "SRV"},   {35, "NAPTR"},
    {41, "OPT"},   {64, "SVCB"},  {65, "HTTPS"}, {249, "TKEY"}, {250, "TSIG"},
    {251, "IXFR"}, {252, "AXFR"}, {255, "ANY"},  {257, "CAA"},
});

// Signatures of transactions (RFC 8945, RFC 2931): no key is known here.
bool isSignature(uint16_t type) {
  constexpr uint16_t kSig = 24;
  constexpr uint16_t kTsig = 250;
  return type == kSig || type == kTsig;
}

bool isPlain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// Reads a name without compression; nullopt for a pointer, or a name that is too long.
std::optional<WireName> takeName(BigEndianReader& reader) {
  WireName name;
  while (true) {
    const uint8_t length = reader.u8();
    if (!reader.ok() || length > kMaxLabel) return std::nullopt;
    name += static_cast<char>(length);
    name += reader.take(length);
    if (!reader.ok() || name.size() > kMaxName) return std::nullopt;
    if (length == 0) return name;
  }
}

// Reads the OPT record after its owner and type (RFC 6891 §6.1).
void takeOpt(BigEndianReader& reader, Query& query) {
  query.edns = true;
  query.udp_bytes = std::max(kMinUdp, reader.u16());
  (void)reader.u8();  // the upper half of a code, which a query does not have
  const uint8_t version = reader.u8();
  query.dnssec_ok = (reader.u16() & kDo) != 0;
  (void)reader.take(reader.u16());  // options: none changes an answer of ours
  if (version != 0) query.fault = Rcode::kBadVers;
}

void takeAdditional(BigEndianReader& reader, Query& query) {
  const auto owner = takeName(reader);
  const uint16_t type = reader.u16();
  if (!owner || !reader.ok()) {
    query.fault = Rcode::kFormErr;
  } else if (isSignature(type)) {
    query.fault = Rcode::kRefused;
    (void)reader.take(6);  // class and TTL
    (void)reader.take(reader.u16());
  } else if (std::to_underlying(Type::kOpt) == type && !query.edns && owner->size() == 1) {
    takeOpt(reader, query);
  } else {
    query.fault = Rcode::kFormErr;
  }
}

// Reads what follows the header of a query.
void takeBody(BigEndianReader& reader, Query& query, uint16_t additional) {
  const auto name = takeName(reader);
  query.type = Type{reader.u16()};
  query.klass = reader.u16();
  if (!name || !reader.ok()) {
    query.fault = Rcode::kFormErr;
    return;
  }
  query.name = *name;
  for (; additional > 0 && query.fault == Rcode::kNoError; --additional) {
    takeAdditional(reader, query);
  }
  const bool whole = additional > 0 || reader.done();
  if (!reader.ok() || !whole) query.fault = Rcode::kFormErr;
}

// --- replies of a resolver, where names may be compressed

// The name at the start of `rest`, which is a tail of `message`. A pointer must point before
// everything that was read of this name, so no chain of pointers can be a loop.
std::optional<WireName> takeCompressed(std::string_view message, std::string_view& rest) {
  WireName name;
  size_t at = message.size() - rest.size();
  size_t lowest = at;
  bool jumped = false;
  while (true) {
    if (at >= message.size()) return std::nullopt;
    const auto length = static_cast<uint8_t>(message[at]);
    if (length >= kPointer >> 8) {
      if (at + 1 >= message.size()) return std::nullopt;
      const size_t target =
          (size_t{length} << 8 | static_cast<uint8_t>(message[at + 1])) & ~size_t{kPointer};
      if (!jumped) rest = message.substr(at + 2);
      if (target >= lowest || target < kHeaderBytes) return std::nullopt;
      jumped = true;
      at = lowest = target;
      continue;
    }
    if (length > kMaxLabel || message.size() - at - 1 < length) return std::nullopt;
    name += message.substr(at, size_t{1} + length);
    if (name.size() > kMaxName) return std::nullopt;
    at += size_t{1} + length;
    if (length != 0) continue;
    if (!jumped) rest = message.substr(at);
    return name;
  }
}

// The data of a record with its names written out. `data` is a part of `message`.
std::optional<std::string> plainData(std::string_view message, std::string_view data, Type type) {
  size_t fixed = 0;  // bytes before the name
  switch (type) {
    case Type::kPtr:
      break;
    case Type::kMx:
      fixed = 2;
      break;
    case Type::kSrv:
      fixed = 6;
      break;
    default:
      return std::string(data);
  }
  if (data.size() < fixed) return std::nullopt;
  const size_t end = static_cast<size_t>(data.data() - message.data()) + data.size();
  const std::string_view until = message.substr(0, end);
  std::string_view rest = until.substr(end - (data.size() - fixed));
  const auto name = takeCompressed(until, rest);
  if (!name || !rest.empty()) return std::nullopt;
  return std::string(data.substr(0, fixed)) + *name;
}

// Takes a record off `rest`, a tail of `message`; the class in `klass`.
std::optional<Record> takeRecord(std::string_view message, std::string_view& rest,
                                 uint16_t& klass) {
  Record record;
  auto name = takeCompressed(message, rest);
  if (!name) return std::nullopt;
  BigEndianReader reader(rest);
  record.type = Type{reader.u16()};
  klass = reader.u16();
  record.ttl = reader.u32();
  const std::string_view data = reader.take(reader.u16());
  if (!reader.ok()) return std::nullopt;
  auto plain = plainData(message, data, record.type);
  if (!plain) return std::nullopt;
  constexpr size_t kFixed = 10;
  rest.remove_prefix(kFixed + data.size());
  record.name = *std::move(name);
  record.data = *std::move(plain);
  return record;
}

// --- writing

uint16_t replyFlags(const Query& query, Rcode code) {
  return static_cast<uint16_t>(
      kQr | (query.opcode & kOpcodeMask) << kOpcodeShift | (query.recursion_desired ? kRd : 0) |
      kRa | (query.checking_disabled ? kCd : 0) | (std::to_underlying(code) & kRcodeMask));
}

void writeOpt(BigEndianWriter& writer, const Query& query, const Reply& reply) {
  const std::string_view text = std::string_view(reply.error_text).substr(0, kMaxErrorText);
  constexpr size_t kOptionHeader = 4;
  const size_t option = sizeof(uint16_t) + text.size();
  writer.u8(0);
  writer.u16(std::to_underlying(Type::kOpt));
  writer.u16(kUdpBytes);
  writer.u8(static_cast<uint8_t>(std::to_underlying(reply.code) >> 4));
  writer.u8(0);
  writer.u16(query.dnssec_ok ? kDo : 0);  // echoed (RFC 3225 §3)
  writer.u16(static_cast<uint16_t>(reply.extended_error ? kOptionHeader + option : 0));
  if (!reply.extended_error) return;
  writer.u16(kOptionExtendedError);
  writer.u16(static_cast<uint16_t>(option));
  writer.u16(*reply.extended_error);
  writer.raw(text);
}

void writeRecord(BigEndianWriter& writer, const Query& query, const Record& record) {
  if (record.name == query.name) {
    writer.u16(kQuestionPointer);
  } else {
    writer.raw(record.name);
  }
  writer.u16(std::to_underlying(record.type));
  writer.u16(kClassIn);
  writer.u32(record.ttl);
  writer.u16(static_cast<uint16_t>(record.data.size()));
  writer.raw(record.data);
}

std::string writeReply(const Query& query, const Reply& reply, bool with_records) {
  BigEndianWriter writer;
  const size_t records = with_records ? reply.answers.size() : 0;
  writer.u16(query.id);
  writer.u16(replyFlags(query, reply.code) | (with_records ? 0 : kTc));
  writer.u16(query.name.empty() ? 0 : 1);
  writer.u16(static_cast<uint16_t>(records));
  writer.u16(0);
  writer.u16(query.edns ? 1 : 0);
  if (!query.name.empty()) {
    writer.raw(query.name);
    writer.u16(std::to_underlying(query.type));
    writer.u16(query.klass);
  }
  for (size_t i = 0; i < records; ++i) {
    writeRecord(writer, query, reply.answers[i]);
  }
  if (query.edns) writeOpt(writer, query, reply);
  return writer.take();
}

}  // namespace

std::string typeName(Type type) {
  const auto found = std::ranges::find(kTypeNames, std::to_underlying(type),
                                       &std::pair<uint16_t, std::string_view>::first);
  if (found != kTypeNames.end()) return std::string(found->second);
  return "TYPE" + std::to_string(std::to_underlying(type));
}

std::optional<WireName> toWire(std::string_view name) {
  WireName wire;
  while (!name.empty()) {
    const size_t length = std::min(name.find('.'), name.size());
    if (length == 0 || length > kMaxLabel || length + 1 == name.size()) return std::nullopt;
    wire += static_cast<char>(length);
    wire += name.substr(0, length);
    name.remove_prefix(std::min(length + 1, name.size()));
  }
  wire += '\0';
  if (wire.size() > kMaxName) return std::nullopt;
  return wire;
}

std::string toText(std::string_view wire) {
  std::string text;
  BigEndianReader reader(wire);
  while (const uint8_t length = reader.u8()) {
    if (!text.empty()) text += '.';
    for (const char c : reader.take(length)) {
      if (isPlain(c)) {
        text += c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
        continue;
      }
      const auto number = static_cast<uint8_t>(c);
      text += '\\';
      for (const int divisor : {100, 10, 1}) {
        text += static_cast<char>('0' + number / divisor % 10);
      }
    }
  }
  return text.empty() ? "." : text;
}

std::optional<Query> readQuery(std::string_view bytes) {
  BigEndianReader reader(bytes);
  Query query;
  query.id = reader.u16();
  const uint16_t flags = reader.u16();
  const uint16_t questions = reader.u16();
  const uint16_t answers = reader.u16();
  const uint16_t authority = reader.u16();
  const uint16_t additional = reader.u16();
  if (!reader.ok() || (flags & kQr) != 0) return std::nullopt;
  query.opcode = flags >> kOpcodeShift & kOpcodeMask;
  query.recursion_desired = (flags & kRd) != 0;
  query.checking_disabled = (flags & kCd) != 0;
  constexpr uint16_t kMaxAdditional = 2;  // OPT, and a signature
  if (query.opcode != 0) {
    query.fault = Rcode::kNotImp;
  } else if (bytes.size() > kMaxQueryBytes || questions != 1 || answers != 0 || authority != 0 ||
             additional > kMaxAdditional || (flags & (kTc | kRcodeMask)) != 0) {
    query.fault = Rcode::kFormErr;
  } else {
    takeBody(reader, query, additional);
  }
  return query;
}

std::string encodeQuery(const Query& query) {
  BigEndianWriter writer;
  writer.u16(query.id);
  writer.u16(static_cast<uint16_t>((query.opcode & kOpcodeMask) << kOpcodeShift |
                                   (query.recursion_desired ? kRd : 0) |
                                   (query.checking_disabled ? kCd : 0)));
  writer.u16(1);
  writer.u32(0);
  writer.u16(query.edns ? 1 : 0);
  writer.raw(query.name);
  writer.u16(std::to_underlying(query.type));
  writer.u16(query.klass);
  if (!query.edns) return writer.take();
  writer.u8(0);
  writer.u16(std::to_underlying(Type::kOpt));
  writer.u16(query.udp_bytes);
  writer.u16(0);
  writer.u16(query.dnssec_ok ? kDo : 0);
  writer.u16(0);
  return writer.take();
}

std::string encodeReply(const Query& query, const Reply& reply, size_t most_bytes) {
  const bool udp = most_bytes < kTcpBytes;
  const size_t bound =
      udp ? std::min<size_t>(std::max<size_t>(most_bytes, kMinUdp), query.udp_bytes) : kTcpBytes;
  std::string whole = writeReply(query, reply, true);
  if (whole.size() <= bound) return whole;
  return writeReply(query, reply, false);
}

Result<Reply> readReply(std::string_view bytes) {
  const auto wrong = [](const char* what) {
    return fail(Code::kInvalid, std::string("DNS reply: ") + what);
  };
  if (bytes.size() > kTcpBytes) return wrong("too long");
  BigEndianReader header(bytes);
  (void)header.u16();
  const uint16_t flags = header.u16();
  const uint16_t questions = header.u16();
  const uint16_t answers = header.u16();
  const size_t further = size_t{header.u16()} + header.u16();
  if (!header.ok() || (flags & kQr) == 0) return wrong("no reply");
  if (questions > 1 || answers + further > kMaxRecords) return wrong("too many records");
  std::string_view rest = bytes.substr(kHeaderBytes);
  if (questions == 1) {
    constexpr size_t kFixed = 4;
    if (!takeCompressed(bytes, rest) || rest.size() < kFixed) return wrong("no whole question");
    rest.remove_prefix(kFixed);
  }
  Reply reply;
  reply.code = Rcode{static_cast<uint16_t>(flags & kRcodeMask)};
  for (size_t i = 0; i < answers + further; ++i) {
    uint16_t klass = 0;
    auto record = takeRecord(bytes, rest, klass);
    if (!record) return wrong("a malformed record");
    if (i < answers && klass == kClassIn) reply.answers.push_back(*std::move(record));
  }
  if (!rest.empty()) return wrong("bytes after the last record");
  return reply;
}

}  // namespace cloister::egress::dns
