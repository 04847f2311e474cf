// SPDX-License-Identifier: Apache-2.0
// The first message of a TLS connection, the ClientHello (RFC 8446 §4.1.2, RFC 5246 §7.4.1.2, RFC
// 6066 §3): the relay reads the server's name in it before it dials. Bytes are hostile. Pure; no
// I/O; not thread-safe.
//
// A hello that two readers could understand differently is refused: two names, a name that is no
// host name, lengths that do not agree, an extension given twice, bytes after the end.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cloister::egress {

struct Hello {
  std::string server_name;         // in lower case (RFC 4343); "" if there is none
  std::vector<std::string> alpn;   // in the client's order: "h2", "http/1.1"
  std::vector<uint16_t> versions;  // offered: 0x0303 is TLS 1.2, 0x0304 is TLS 1.3
  // The true name may be encrypted (encrypted_client_hello, or its predecessor). Some clients send
  // a decoy; nobody but the server can tell.
  bool encrypted = false;
};

class HelloReader {
 public:
  enum class State : uint8_t { kMore, kDone, kBad };

  static constexpr size_t kMaxHandshake = size_t{16} << 10;
  // With the headers of records. A client may cut the hello into records of any length.
  static constexpr size_t kMaxBytes = size_t{32} << 10;

  // Continues with the next bytes of the stream. kBad as soon as the bytes cannot become a hello.
  // After kDone and kBad further bytes are ignored: bytes after the hello's record are early data.
  State feed(std::string_view bytes);
  [[nodiscard]] State state() const { return state_; }
  // After kDone.
  [[nodiscard]] const Hello& hello() const { return hello_; }
  // After kBad: a sentence.
  [[nodiscard]] std::string_view why() const { return why_; }

 private:
  State bad(std::string_view why);
  void feedByte(char byte);
  void readRecordHeader();
  void readHandshake();

  State state_ = State::kMore;
  std::string header_;      // of the record, as far as it came
  size_t record_left_ = 0;  // bytes of the record that are still to come
  size_t bytes_ = 0;        // of the stream
  std::string handshake_;
  Hello hello_;
  std::string_view why_;
};

}  // namespace cloister::egress
