// SPDX-License-Identifier: Apache-2.0
#include "egress/tls/hello.h"

#include <algorithm>
#include <expected>

#include "base/big_endian.h"

namespace cloister::egress {
namespace {

using base::BigEndianReader;
// The reason of a refusal.
using Checked = std::expected<void, std::string_view>;

constexpr size_t kRecordHeader = 5;
constexpr size_t kHandshakeHeader = 4;
constexpr uint8_t kHandshakeRecord = 22;
constexpr uint8_t kClientHello = 1;
constexpr size_t kMaxRecord = size_t{1} << 14;
constexpr size_t kMaxExtensions = 128;
constexpr size_t kMaxProtocols = 32;  // of ALPN
constexpr size_t kMaxHostName = 253;
constexpr size_t kMaxLabel = 63;

constexpr uint16_t kServerName = 0;
constexpr uint16_t kAlpn = 16;
constexpr uint16_t kSupportedVersions = 43;
constexpr uint16_t kFirstEch = 0xfe08;  // of the drafts
constexpr uint16_t kEch = 0xfe0d;
constexpr uint16_t kEsni = 0xffce;  // the predecessor, of drafts alone

std::unexpected<std::string_view> refuse(std::string_view why) {
  return std::unexpected(why);
}

bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

// The name in lower case, if it is a host name and no address: letters, digits, '-', '_', no empty
// label, and a last label that is not all digits (RFC 6066 §3, RFC 1123 §2.1).
std::expected<std::string, std::string_view> hostOfServerName(std::string_view name) {
  constexpr std::string_view kWrong = "The server name is no host name.";
  if (name.empty() || name.size() > kMaxHostName) return refuse(kWrong);
  std::string host;
  size_t label = 0;
  bool digits = true;  // the label so far
  for (const char c : name) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool letter = upper || (c >= 'a' && c <= 'z') || c == '-' || c == '_';
    if (c == '.' ? label == 0 : !letter && !isDigit(c)) return refuse(kWrong);
    digits = c == '.' || (digits && isDigit(c));
    label = c == '.' ? 0 : label + 1;
    if (label > kMaxLabel) return refuse(kWrong);
    host += upper ? static_cast<char>(c | 0x20) : c;
  }
  if (label == 0) return refuse("The server name ends with a dot.");
  if (digits) return refuse("The server name is an address.");
  return host;
}

Checked readServerName(std::string_view data, Hello& hello) {
  BigEndianReader reader(data);
  BigEndianReader list(reader.take(reader.u16()));
  const uint8_t type = list.u8();
  const std::string_view name = list.take(list.u16());
  if (!reader.done() || !list.ok()) return refuse("The server name has a wrong length.");
  if (!list.empty()) return refuse("There are two server names.");
  if (type != 0) return refuse("The server name is of an unknown type.");
  auto host = hostOfServerName(name);
  if (!host) return refuse(host.error());
  hello.server_name = *std::move(host);
  return {};
}

Checked readAlpn(std::string_view data, Hello& hello) {
  BigEndianReader reader(data);
  BigEndianReader list(reader.take(reader.u16()));
  constexpr std::string_view kWrong = "The list of application protocols has a wrong length.";
  if (!reader.done() || list.empty()) return refuse(kWrong);
  while (!list.empty()) {
    const std::string_view protocol = list.take(list.u8());
    if (!list.ok() || protocol.empty()) return refuse(kWrong);
    if (hello.alpn.size() == kMaxProtocols) return refuse("There are too many protocols.");
    hello.alpn.emplace_back(protocol);
  }
  return {};
}

Checked readVersions(std::string_view data, Hello& hello) {
  BigEndianReader reader(data);
  BigEndianReader list(reader.take(reader.u8()));
  hello.versions.clear();  // the legacy version no longer counts
  while (!list.empty())
    hello.versions.push_back(list.u16());
  if (!reader.done() || !list.ok() || hello.versions.empty()) {
    return refuse("The list of versions has a wrong length.");
  }
  return {};
}

Checked readExtension(uint16_t type, std::string_view data, Hello& hello) {
  if (type == kServerName) return readServerName(data, hello);
  if (type == kAlpn) return readAlpn(data, hello);
  if (type == kSupportedVersions) return readVersions(data, hello);
  if ((type >= kFirstEch && type <= kEch) || type == kEsni) hello.encrypted = true;
  return {};
}

Checked readExtensions(std::string_view data, Hello& hello) {
  BigEndianReader reader(data);
  std::vector<uint16_t> seen;
  while (!reader.empty()) {
    const uint16_t type = reader.u16();
    const std::string_view extension = reader.take(reader.u16());
    if (!reader.ok()) return refuse("An extension has a wrong length.");
    if (std::ranges::find(seen, type) != seen.end()) return refuse("An extension is given twice.");
    if (seen.size() == kMaxExtensions) return refuse("There are too many extensions.");
    seen.push_back(type);
    if (auto good = readExtension(type, extension, hello); !good) return good;
  }
  return {};
}

// Reads a ClientHello after its handshake header.
Checked readHello(std::string_view body, Hello& hello) {
  constexpr size_t kRandom = 32;
  constexpr size_t kMaxSessionId = 32;
  constexpr uint8_t kMajor = 3;
  BigEndianReader reader(body);
  const uint16_t version = reader.u16();
  (void)reader.take(kRandom);
  const std::string_view session = reader.take(reader.u8());
  const std::string_view ciphers = reader.take(reader.u16());
  const std::string_view compressions = reader.take(reader.u8());
  if (!reader.ok() || session.size() > kMaxSessionId || ciphers.empty() ||
      ciphers.size() % 2 != 0 || compressions.empty()) {
    return refuse("The hello has wrong lengths.");
  }
  if (version >> 8 != kMajor) return refuse("The hello is of an unknown version.");
  hello.versions = {version};
  if (reader.empty()) return {};  // RFC 5246: extensions may be absent
  const std::string_view extensions = reader.take(reader.u16());
  if (!reader.done()) return refuse("The extensions have a wrong length.");
  return readExtensions(extensions, hello);
}

// Why a first byte does not begin a TLS record; a sentence for whoever reads the record.
std::string_view whyNoTls(uint8_t first) {
  constexpr uint8_t kSsl2 = 0x80;
  if ((first & kSsl2) != 0) return "The connection begins with an SSL 2 hello, or is not TLS.";
  return "The connection does not speak TLS.";
}

}  // namespace

HelloReader::State HelloReader::bad(std::string_view why) {
  why_ = why;
  return state_ = State::kBad;
}

HelloReader::State HelloReader::feed(std::string_view bytes) {
  for (const char byte : bytes) {
    if (state_ != State::kMore) break;
    if (++bytes_ > kMaxBytes) return bad("The hello is cut into too many records.");
    feedByte(byte);
  }
  return state_;
}

void HelloReader::feedByte(char byte) {
  if (record_left_ == 0) {
    header_ += byte;
    readRecordHeader();
    return;
  }
  --record_left_;
  handshake_ += byte;
  if (record_left_ == 0) header_.clear();
  readHandshake();
}

// Looks at each byte of a record's header as it comes, so that other protocols are known at once.
void HelloReader::readRecordHeader() {
  constexpr char kMajor = 3;
  constexpr char kMaxMinor = 4;
  BigEndianReader reader(header_);
  const uint8_t type = reader.u8();
  if (type != kHandshakeRecord) {
    bad(handshake_.empty() ? whyNoTls(type) : "The hello is interrupted.");
  } else if ((header_.size() > 1 && header_[1] != kMajor) ||
             (header_.size() > 2 && (header_[2] < 0 || header_[2] > kMaxMinor))) {
    bad("The record is of an unknown version.");
  } else if (header_.size() == kRecordHeader) {
    (void)reader.u16();
    record_left_ = reader.u16();
    if (record_left_ == 0) bad("A record of the hello is empty.");
    if (record_left_ > kMaxRecord) bad("A record of the hello is too long.");
  }
}

void HelloReader::readHandshake() {
  BigEndianReader reader(handshake_);
  if (reader.u8() != kClientHello) {
    bad("The first message is no ClientHello.");
    return;
  }
  if (handshake_.size() < kHandshakeHeader) return;
  const size_t length = reader.u24();
  if (length > kMaxHandshake) {
    bad("The hello is too long.");
    return;
  }
  if (handshake_.size() < kHandshakeHeader + length) return;
  if (record_left_ != 0) {
    bad("Bytes follow the hello in its record.");
    return;
  }
  const auto good = readHello(std::string_view(handshake_).substr(kHandshakeHeader), hello_);
  handshake_ = {};  // a tunnel keeps its reader
  if (!good) {
    bad(good.error());
    return;
  }
  state_ = State::kDone;
}

}  // namespace cloister::egress
