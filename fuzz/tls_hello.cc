// SPDX-License-Identifier: Apache-2.0
// ClientHellos: bytes at once, in two pieces and byte by byte give the same hello or the same
// refusal. A hello of a single record is read alike when each byte has a record of its own.
#include "egress/tls/hello.h"

#include "require.h"

using cloister::egress::Hello;
using cloister::egress::HelloReader;
using State = HelloReader::State;

namespace {

constexpr size_t kHeader = 5;

void requireSame(const HelloReader& a, const HelloReader& b) {
  REQUIRE(a.state() == b.state());
  REQUIRE(a.why() == b.why());
  REQUIRE(a.hello().server_name == b.hello().server_name);
  REQUIRE(a.hello().alpn == b.hello().alpn);
  REQUIRE(a.hello().versions == b.hello().versions);
  REQUIRE(a.hello().encrypted == b.hello().encrypted);
}

void requireSound(const Hello& hello) {
  REQUIRE(!hello.versions.empty());
  for (const char c : hello.server_name) {
    REQUIRE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.');
  }
  REQUIRE(!hello.server_name.ends_with('.') && !hello.server_name.starts_with('.'));
}

// The handshake bytes of the first record, each in a record of its own.
std::string inTinyRecords(std::string_view bytes) {
  std::string out;
  const size_t length = static_cast<uint8_t>(bytes[3]) << 8 | static_cast<uint8_t>(bytes[4]);
  for (const char c : bytes.substr(kHeader, length)) {
    out += bytes.substr(0, 3);
    out += std::string_view("\0\1", 2);
    out += c;
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  HelloReader whole;
  whole.feed(bytes);
  HelloReader single;
  size_t used = 0;
  while (used < size && single.state() == State::kMore)
    single.feed(bytes.substr(used++, 1));
  requireSame(whole, single);
  HelloReader halves;
  halves.feed(bytes.substr(0, size / 2));
  halves.feed(bytes.substr(size / 2));
  requireSame(whole, halves);
  REQUIRE((whole.state() == State::kBad) == !whole.why().empty());
  if (whole.state() != State::kDone) return 0;
  requireSound(whole.hello());
  const size_t first = kHeader + (data[3] << 8 | data[4]);
  if (first < used || first * 6 > HelloReader::kMaxBytes) return 0;  // several records, or too many
  HelloReader tiny;
  tiny.feed(inTinyRecords(bytes));
  requireSame(whole, tiny);
  return 0;
}
