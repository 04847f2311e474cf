// SPDX-License-Identifier: Apache-2.0
#include "egress/tls/hello.h"

#include <filesystem>
#include <random>

#include <gtest/gtest.h>

#include "base/big_endian.h"
#include "base/file.h"

namespace cloister::egress {
namespace {

using namespace std::literals;
using base::BigEndianWriter;
using State = HelloReader::State;

constexpr size_t kRecord = size_t{1} << 14;

// Bytes after their length, of one or two bytes.
std::string sized8(std::string_view bytes) {
  return static_cast<char>(bytes.size()) + std::string(bytes);
}
std::string sized16(std::string_view bytes) {
  BigEndianWriter writer;
  writer.u16(static_cast<uint16_t>(bytes.size()));
  writer.raw(bytes);
  return writer.take();
}

std::string extension(uint16_t type, std::string_view data) {
  BigEndianWriter writer;
  writer.u16(type);
  writer.raw(sized16(data));
  return writer.take();
}

std::string serverName(std::string_view name) {
  return extension(0, sized16("\0"s + sized16(name)));
}

std::string body(std::string_view extensions) {
  return "\x03\x03" + std::string(32, 'r') + sized8("session") + sized16("\x13\x01\x13\x02") +
         sized8("\0"s) + std::string(extensions);
}

std::string handshake(std::string_view content) {
  BigEndianWriter writer;
  writer.u32(static_cast<uint32_t>(1U << 24 | content.size()));
  writer.raw(content);
  return writer.take();
}

// The bytes in records of at most `most` bytes.
std::string records(std::string_view bytes, size_t most = kRecord) {
  std::string out;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(most, bytes.size())))
    out += "\x16\x03\x01" + sized16(bytes.substr(0, most));
  return out;
}

std::string hello(std::string_view extensions) {
  return records(handshake(body(sized16(extensions))));
}

// The reason of the refusal; "" if the hello is accepted, "more" if its end is missing.
std::string whyOf(std::string_view bytes) {
  HelloReader reader;
  if (reader.feed(bytes) == State::kMore) return "more";
  return std::string(reader.why());
}

Hello read(std::string_view bytes) {
  HelloReader reader;
  EXPECT_EQ(reader.feed(bytes), State::kDone) << reader.why();
  return reader.hello();
}

std::string file(const std::string& name) {
  return base::readFile(CLOISTER_SOURCE_DIR "/fuzz/corpus/tls_hello/" + name).value();
}

TEST(Hello, OfClientsIsRead) {
  const Hello curl = read(file("client_curl"));
  EXPECT_EQ(curl.server_name, "api.example.com");
  EXPECT_EQ(curl.alpn, (std::vector<std::string>{"h2", "http/1.1"}));
  EXPECT_EQ(curl.versions, (std::vector<uint16_t>{0x0304, 0x0303}));
  EXPECT_FALSE(curl.encrypted);
  EXPECT_EQ(read(file("client_curl_http1_tls12")).versions, (std::vector<uint16_t>{0x0303}));
  EXPECT_EQ(read(file("client_openssl")).server_name,
            "api.example.com");  // sent as "Api.Example.com"
  EXPECT_EQ(read(file("client_openssl_without_name")).server_name, "");
  EXPECT_EQ(read(file("client_openssl_in_pieces")).alpn.size(), 30U);
  EXPECT_EQ(read(file("client_python")).server_name, "api.example.com");
  EXPECT_EQ(read(file("client_node")).server_name, "api.example.com");
}

TEST(Hello, OfClientsNeedsEachOfItsBytes) {
  size_t clients = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(CLOISTER_SOURCE_DIR "/fuzz/corpus/tls_hello")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("client_")) continue;
    const std::string bytes = file(name);
    HelloReader reader;
    for (size_t i = 0; i + 1 < bytes.size(); ++i)
      ASSERT_EQ(reader.feed(std::string_view(bytes).substr(i, 1)), State::kMore)
          << name << ": " << i;
    EXPECT_EQ(reader.feed(std::string_view(bytes).substr(bytes.size() - 1)), State::kDone) << name;
    ++clients;
  }
  EXPECT_GE(clients, 7U);
}

TEST(Hello, IsReadInRecordsOfAnyLength) {
  const std::string message = handshake(body(sized16(serverName("api.example.com"))));
  for (const size_t most : {1, 2, 3, 7, 64, 1000}) {
    EXPECT_EQ(read(records(message, most)).server_name, "api.example.com") << most;
  }
}

TEST(Hello, EndsBeforeEarlyData) {
  HelloReader reader;
  EXPECT_EQ(reader.feed(hello(serverName("a.b")) + "\x17\x03\x03\0\1x"s), State::kDone);
  EXPECT_EQ(reader.feed("anything"), State::kDone);
  EXPECT_EQ(reader.hello().server_name, "a.b");
}

TEST(Hello, MayHaveNoExtensions) {
  const Hello old = read(records(handshake(body(""))));
  EXPECT_EQ(old.server_name, "");
  EXPECT_EQ(old.versions, (std::vector<uint16_t>{0x0303}));
  EXPECT_EQ(read(hello("")).server_name, "");
}

TEST(Hello, ShowsThatItsNameMayBeEncrypted) {
  for (const uint16_t type : {0xfe0d, 0xfe0a, 0xfe08, 0xffce}) {
    const Hello read_hello = read(hello(serverName("public.example") + extension(type, "\0x"s)));
    EXPECT_TRUE(read_hello.encrypted) << type;
    EXPECT_EQ(read_hello.server_name, "public.example");
  }
  EXPECT_FALSE(read(hello(extension(0xfe0e, "x") + extension(0x0a0a, ""))).encrypted);
}

TEST(Hello, WithAnOddNameIsRefused) {
  for (const auto name : {"a.b."sv, ".a"sv, "a..b"sv, ""sv, "a b"sv, "a\0b"sv, "a.b\0"sv, "a%2eb"sv,
                          "a/b"sv, "a:443"sv, "u@a.b"sv, "*.a.b"sv, "192.0.2.1"sv, "1"sv, "a.1"sv,
                          "::1"sv, "[::1]"sv, "b\xc3\xbc.de"sv, "a\nb"sv})
    EXPECT_NE(whyOf(hello(serverName(name))), "") << name;
  EXPECT_EQ(whyOf(hello(serverName("xn--bcher-kva.example"))), "");
  EXPECT_EQ(whyOf(hello(serverName(std::string(63, 'a') + ".b"))), "");
  EXPECT_NE(whyOf(hello(serverName(std::string(64, 'a') + ".b"))), "");
  EXPECT_NE(whyOf(hello(serverName(std::string(60, 'a') + std::string(100, '.')))), "");
  std::string long_name;
  while (long_name.size() < 253)
    long_name += "abcdefg.";
  EXPECT_NE(whyOf(hello(serverName(long_name + "a"))), "");
  EXPECT_EQ(read(hello(serverName("API.Example.COM"))).server_name, "api.example.com");
}

TEST(Hello, WithTwoNamesIsRefused) {
  const std::string entry = "\0"s + sized16("a.b");
  EXPECT_NE(whyOf(hello(serverName("a.b") + serverName("a.b"))), "");
  EXPECT_NE(whyOf(hello(extension(0, sized16(entry + entry)))), "");
  EXPECT_NE(whyOf(hello(extension(0, sized16("\1"s + sized16("a.b"))))), "");
  EXPECT_NE(whyOf(hello(extension(0, sized16("\1"s + sized16("a.b") + entry)))), "");
  EXPECT_NE(whyOf(hello(extension(0, ""))), "");
  EXPECT_NE(whyOf(hello(extension(0, sized16("")))), "");
}

TEST(Hello, WithWrongLengthsIsRefused) {
  EXPECT_NE(whyOf(hello(extension(0, sized16("\0"s + sized16("a.b")) + "x"))), "");
  EXPECT_NE(whyOf(hello(extension(0, sized16("\0\0\5a.b"s)))), "");
  EXPECT_NE(whyOf(hello(extension(0, "\0\7\0\0\3a.b"s))), "");
  EXPECT_NE(whyOf(hello(serverName("a.b") + "x")), "");
  EXPECT_NE(whyOf(records(handshake(body(sized16(serverName("a.b")) + "x")))), "");
  EXPECT_NE(whyOf(records(handshake(body("\0\1"s)))), "");
  EXPECT_NE(whyOf(records(handshake(""))), "");
  EXPECT_NE(whyOf(hello(extension(16, sized16("")))), "");
  EXPECT_NE(whyOf(hello(extension(16, sized16("\3h2"s)))), "");
  EXPECT_NE(whyOf(hello(extension(16, sized16("\0"s)))), "");
  EXPECT_NE(whyOf(hello(extension(16, sized16(sized8("h2")) + "x"))), "");
  EXPECT_NE(whyOf(hello(extension(43, sized8("\3\4\3")))), "");
  EXPECT_NE(whyOf(hello(extension(43, sized8("")))), "");
  const std::string long_session = "\x03\x03" + std::string(32, 'r') + sized8(std::string(33, 's'));
  EXPECT_NE(whyOf(records(handshake(long_session + sized16("\x13\x01") + sized8("\0"s)))), "");
  const std::string start = "\x03\x03" + std::string(32, 'r') + sized8("");
  EXPECT_NE(whyOf(records(handshake(start + sized16("\x13\x01\x13") + sized8("\0"s)))), "");
  EXPECT_NE(whyOf(records(handshake(start + sized16("") + sized8("\0"s)))), "");
  EXPECT_NE(whyOf(records(handshake(start + sized16("\x13\x01") + sized8("")))), "");
}

TEST(Hello, WithAnExtensionTwiceIsRefused) {
  EXPECT_NE(whyOf(hello(extension(5, "x") + extension(5, "x"))), "");
  std::string many;
  for (uint16_t type = 100; type < 228; ++type)
    many += extension(type, "");
  EXPECT_EQ(whyOf(hello(many)), "");
  EXPECT_NE(whyOf(hello(many + extension(228, ""))), "");
}

TEST(Hello, WithManyProtocolsIsRefused) {
  std::string protocols;
  for (int i = 0; i < 32; ++i)
    protocols += sized8("h2");
  EXPECT_EQ(whyOf(hello(extension(16, sized16(protocols)))), "");
  EXPECT_NE(whyOf(hello(extension(16, sized16(protocols + sized8("h2"))))), "");
}

TEST(Hello, HasBounds) {
  const auto padded = [](size_t size) {
    const size_t rest = handshake(body(sized16(extension(21, "")))).size() - 4;
    return handshake(body(sized16(extension(21, std::string(size - rest, '\0')))));
  };
  EXPECT_EQ(whyOf(records(padded(HelloReader::kMaxHandshake))), "");
  EXPECT_NE(whyOf(records(padded(HelloReader::kMaxHandshake + 1))), "");
  EXPECT_EQ(whyOf(records(padded(5000), 1)), "");
  EXPECT_NE(whyOf(records(padded(8000), 1)), "");  // more headers than bytes
  EXPECT_NE(whyOf("\x16\x03\x01\x40\x01"sv), "");  // a record of 16 KiB and one byte
  EXPECT_NE(whyOf("\x16\x03\x01\0\0"sv), "");
}

TEST(Hello, OfOtherProtocolsIsRefusedAtOnce) {
  EXPECT_NE(whyOf("GET / HTTP/1.1\r\n"), "");
  EXPECT_NE(whyOf("SSH-2.0-OpenSSH_9.2\r\n"), "");
  EXPECT_EQ(whyOf("\x80\x2e\1\0\2"sv), "The connection begins with an SSL 2 hello, or is not TLS.");
  EXPECT_NE(whyOf("\x15\x03\x01\0\2\2\x46"sv), "");  // an alert
  EXPECT_NE(whyOf("\x16\x02"), "");
  EXPECT_NE(whyOf("\x16\x03\x05"), "");
  EXPECT_NE(whyOf("\x16\xfe\xff"), "");                         // DTLS
  EXPECT_NE(whyOf("\x16\x03\x01\0\1\2"sv), "");                 // a ServerHello
  EXPECT_NE(whyOf(records(handshake(body("")) + "\x0b")), "");  // another message in the record
  const std::string message = handshake(body(sized16(serverName("a.b"))));
  EXPECT_NE(whyOf(records(message.substr(0, 20)) + "\x15\x03\x01\0\2\1\0"s), "");
  EXPECT_NE(whyOf(records(handshake("\2\0"s + body("").substr(2)))), "");
  EXPECT_EQ(whyOf(""), "more");
}

TEST(Hello, StaysRefused) {
  HelloReader reader;
  EXPECT_EQ(reader.feed("x"), State::kBad);
  const std::string why(reader.why());
  EXPECT_EQ(reader.feed(hello(serverName("a.b"))), State::kBad);
  EXPECT_EQ(reader.why(), why);
}

TEST(HelloProperties, ChangedBytesGiveTheSameAnswerInPieces) {
  std::mt19937 random(3);
  const std::string good = file("client_curl");
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = good;
    for (size_t i = 1 + random() % 4; i > 0; --i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    HelloReader whole;
    whole.feed(bytes);
    HelloReader pieces;
    for (std::string_view rest = bytes; !rest.empty();) {
      const size_t size = std::min<size_t>(1 + random() % 100, rest.size());
      pieces.feed(rest.substr(0, size));
      rest.remove_prefix(size);
    }
    ASSERT_EQ(whole.state(), pieces.state());
    ASSERT_EQ(whole.why(), pieces.why());
    ASSERT_EQ(whole.hello().server_name, pieces.hello().server_name);
  }
}

}  // namespace
}  // namespace cloister::egress
