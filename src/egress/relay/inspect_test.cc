// SPDX-License-Identifier: Apache-2.0
#include "egress/relay/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crypto.h"
#include "egress/relay/inspect_testing.h"

namespace cloister::egress {
namespace {

using namespace boost::asio::experimental::awaitable_operators;
using testing::HasSubstr;
using testing::Not;

class Inspect : public InspectTest {
 protected:
  [[nodiscard]] std::string get(const std::string& target, const std::string& fields = "") const {
    return "GET " + target + " HTTP/1.1\r\nHost: origin.test:" + portText() + "\r\n" + fields +
           "\r\n";
  }
  static std::string ok(const std::string& body, const std::string& fields = "") {
    return "HTTP/1.1 200 OK\r\n" + fields + "Content-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
  }
  // The head of the request that reaches the origin, which answers `answer`, and what the client
  // reads until `until`.
  std::pair<std::string, std::string> exchange(const std::string& request,
                                               const std::string& answer,
                                               const std::string& until) {
    auto [client, server] = run(pairOverRelay());
    auto serve = [](TlsEnd& end, std::string text) -> Task<std::string> {
      std::string head = co_await end.until("\r\n\r\n");
      co_await end.send(std::move(text));
      co_return head;
    };
    auto ask = [](TlsEnd& end, std::string text, std::string last) -> Task<std::string> {
      co_await end.send(std::move(text));
      co_return co_await end.until(std::move(last));
    };
    auto [seen, got] = run(both(serve(*server, answer), ask(*client, request, until)));
    client->close();
    server->close();
    finish();
    return {seen, got};
  }
  static Task<std::pair<std::string, std::string>> both(Task<std::string> a, Task<std::string> b) {
    auto [first, second] = co_await (std::move(a) && std::move(b));
    co_return std::pair(first, second);
  }
  // The client's error, while an origin serves.
  Task<std::string> clientFault(TlsEnd& client) {
    auto [fault, server] = co_await (client.shake(false) && serveTls());
    co_return fault;
  }
  // The answer of the relay to a request that never reaches the origin.
  std::string refused(const std::string& request) {
    auto [client, server] = run(pairOverRelay());
    run(client->send(request));
    std::string answer = run(client->until("}\n"));
    client->close();
    EXPECT_EQ(run(server->rest()), "");
    finish();
    return answer;
  }
};

TEST_F(Inspect, JudgesEachRequest) {
  model::PlanRule& rule = inspected();
  rule.entry.methods = {"GET"};
  rule.entry.paths = {"/v1/*"};
  auto [client, server] = run(pairOverRelay());
  EXPECT_EQ(client->protocol(), "");
  run(client->send(get("/v1/items?a=b", "X-One: 1\r\n")));
  const std::string head = run(server->until("\r\n\r\n"));
  EXPECT_THAT(head, HasSubstr("GET /v1/items?a=b HTTP/1.1\r\nHost: origin.test:" + portText()));
  EXPECT_THAT(head, HasSubstr("x-one: 1\r\n"));
  run(server->send(ok("first")));
  EXPECT_THAT(run(client->until("first")), HasSubstr("200 OK"));

  run(client->send(get("/v2/items")));
  EXPECT_THAT(run(client->until("}\n")), HasSubstr("403 Forbidden"));
  EXPECT_THAT(refusalsText(), HasSubstr("/v2/items"));
  run(client->send("DELETE /v1/items HTTP/1.1\r\nHost: origin.test:" + portText() + "\r\n\r\n"));
  EXPECT_THAT(run(client->until("}\n")), HasSubstr("403 Forbidden"));
  run(client->send("GET /v1/x HTTP/1.1\r\nHost: evil.test\r\n\r\n"));
  EXPECT_THAT(run(client->until("}\n")), HasSubstr("421"));

  run(client->send(get("/v1/last")));
  EXPECT_THAT(run(server->until("\r\n\r\n")), HasSubstr("GET /v1/last"));
  run(server->send(ok("last")));
  EXPECT_THAT(run(client->until("last")), HasSubstr("200 OK"));
  EXPECT_EQ(guard->requests, 1000 - 4);  // the misdirected one takes none
  EXPECT_GT(guard->bytes_in, 0U);
}

TEST_F(Inspect, AnUninspectedRulePassesTheOriginsOwnCertificate) {
  allow(model::Protocol::kTls);
  TlsEnd client(connect(), client_context);
  name(client, "origin.test");
  EXPECT_THAT(run(clientFault(client)), HasSubstr("certificate"));
}

TEST_F(Inspect, OffersWhatTheOriginChose) {
  inspected();
  offer({"h2", "http/1.1"});
  choose({"http/1.1", "h2"});
  auto [client, server] = run(pairOverRelay());
  EXPECT_EQ(client->protocol(), "http/1.1");
  EXPECT_EQ(server->protocol(), "http/1.1");
}

TEST_F(Inspect, AnOriginWithoutALPNMeansHttp1) {
  inspected();
  offer({"h2", "http/1.1"});
  auto [client, server] = run(pairOverRelay());
  EXPECT_EQ(client->protocol(), "");
  run(client->send(get("/")));
  EXPECT_THAT(run(server->until("\r\n\r\n")), HasSubstr("GET / HTTP/1.1"));
}

TEST_F(Inspect, AProtocolThatCannotBeReadIsRefused) {
  inspected();
  offer({"imap"});
  EXPECT_NE(refusedHandshake(), "");
  EXPECT_THAT(refusalsText(), HasSubstr("no protocol that can be read"));
  EXPECT_FALSE(sawConnection());
}

TEST_F(Inspect, APinnedClientFailsWithARecord) {
  inspected();
  client_context = boost::asio::ssl::context(boost::asio::ssl::context::tls_client);
  client_context.set_verify_mode(boost::asio::ssl::verify_peer);
  EXPECT_THAT(refusedHandshake(), HasSubstr("certificate verify failed"));
  EXPECT_THAT(refusalsText(), HasSubstr("does not accept the certificate"));
}

TEST_F(Inspect, AnOriginOfAnUnknownAuthorityIsRefused) {
  inspected();
  const TestAuthority other;
  dialWith({.origins = readOrigins(other.path()).value()});
  EXPECT_THAT(refusedHandshake(), HasSubstr("access denied"));
  EXPECT_THAT(refusalsText(), HasSubstr("The certificate of origin.test is not accepted"));
}

TEST_F(Inspect, AnOriginWithAnotherNameIsRefused) {
  inspected();
  origin_authority.certify(server_context, "DNS:other.test");
  EXPECT_NE(refusedHandshake(), "");
  EXPECT_THAT(refusalsText(), HasSubstr("hostname mismatch"));
}

TEST_F(Inspect, AnOriginThatAsksForACertificateIsRefused) {
  inspected();
  server_context.set_verify_mode(boost::asio::ssl::verify_peer);
  EXPECT_NE(refusedHandshake(), "");
  EXPECT_THAT(refusalsText(), HasSubstr("asks for a certificate of the client"));
}

TEST_F(Inspect, AnOldOriginIsRefused) {
  inspected();
  ::SSL_CTX_set_min_proto_version(server_context.native_handle(), TLS1_1_VERSION);
  ::SSL_CTX_set_max_proto_version(server_context.native_handle(), TLS1_1_VERSION);
  ::SSL_CTX_set_cipher_list(server_context.native_handle(), "ALL:@SECLEVEL=0");
  EXPECT_NE(refusedHandshake(), "");
  EXPECT_THAT(refusalsText(), HasSubstr("TLS with origin.test failed"));
}

TEST_F(Inspect, ASilentOriginEndsInTime) {
  inspected();
  limits.greeting = Millis(100);
  TlsEnd client(connect(), client_context);
  name(client, "origin.test");
  auto [fault, silent] =
      run([](TlsEnd& end, Task<Socket> accepted) -> Task<std::tuple<std::string, Socket>> {
        co_return co_await (end.shake(false) && std::move(accepted));
      }(client, accept()));
  EXPECT_NE(fault, "");
  EXPECT_THAT(refusalsText(), HasSubstr("timed out"));
}

TEST_F(Inspect, ANameThatTheAuthorityDoesNotCoverIsRefused) {
  inspected();
  guard->issuer = Authority::make({"other.test"}).value();
  EXPECT_NE(refusedHandshake(), "");
  EXPECT_THAT(refusalsText(), HasSubstr("trust no authority"));
  EXPECT_FALSE(sawConnection());
}

TEST_F(Inspect, AnEncryptedHelloIsRefusedUnderARuleForEveryName) {
  constexpr unsigned kEch = 0xfe0d;
  ::SSL_CTX_add_custom_ext(
      client_context.native_handle(), kEch, SSL_EXT_CLIENT_HELLO,
      [](SSL*, unsigned, unsigned, const unsigned char** out, size_t* size, X509*, size_t, int*,
         void*) {
        static constexpr unsigned char kBytes[] = {0, 0, 1, 0, 1, 7, 0, 0, 0, 1, 9};
        *out = kBytes;
        *size = sizeof kBytes;
        return 1;
      },
      nullptr, nullptr, nullptr, nullptr);
  inspected().anyone = true;
  EXPECT_NE(refusedHandshake(), "");
  EXPECT_THAT(refusalsText(), HasSubstr("ECH"));
}

TEST_F(Inspect, APlanThatInspectsCutsUnreadTls) {
  allow(model::Protocol::kTls);
  client_context.set_verify_mode(boost::asio::ssl::verify_none);
  auto [client, server] = run(pairOverRelay());
  guard->change([](model::NetworkPlan& plan) { plan.rules[0].entry.inspect = true; });
  finish();
  EXPECT_THAT(refusalsText(), HasSubstr("wants to inspect TLS by now"));
}

TEST_F(Inspect, ATicketOfTheOriginIsNoAnswer) {
  // OpenSSL sends its tickets of TLS 1.3 behind the handshake.
  inspected();
  auto [client, server] = run(pairOverRelay());
  run([this]() -> Task<void> {
    boost::asio::steady_timer timer(io, Millis(50));
    co_await timer.async_wait(boost::asio::use_awaitable);
  }());
  run(client->send(get("/later")));
  EXPECT_THAT(run(server->until("\r\n\r\n")), HasSubstr("/later"));
}

TEST_F(Inspect, TheEndOfTheOriginEndsTheClient) {
  inspected();
  auto [client, server] = run(pairOverRelay());
  server->close();
  EXPECT_EQ(run(client->rest()), "");
}

// --- secrets

TEST_F(Inspect, ASecretsHostIsInspectedWithoutARuleThatSaysSo) {
  allow(model::Protocol::kTls);
  broker(secret());
  const auto [head, answer] =
      exchange(get("/", "Authorization: mine\r\nAccept-Encoding: gzip\r\nRange: bytes=0-9\r\n"),
               ok("hi"), "0\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("authorization: Bearer " + std::string(kValue) + "\r\n"));
  EXPECT_THAT(head, HasSubstr("accept-encoding: identity\r\n"));
  EXPECT_THAT(head, Not(HasSubstr("mine")));
  EXPECT_THAT(head, Not(HasSubstr("range")));
  EXPECT_THAT(answer, HasSubstr("hi"));
}

TEST_F(Inspect, APlaceholderBecomesTheValue) {
  inspected();
  model::PlanSecret made = secret();
  made.header.clear();
  broker(made);
  const std::string basic = base::toBase64("user:" + std::string(kPlaceholder));
  const auto [head, answer] =
      exchange(get("/", "X-Key: k=" + std::string(kPlaceholder) + ";v=1\r\nAuthorization: Basic " +
                            basic + "\r\n"),
               ok("hi"), "0\r\n\r\n");
  EXPECT_THAT(head, HasSubstr("x-key: k=" + std::string(kValue) + ";v=1\r\n"));
  EXPECT_THAT(head, HasSubstr("authorization: Basic " +
                              base::toBase64("user:" + std::string(kValue)) + "\r\n"));
}

TEST_F(Inspect, APlaceholderElsewhereIsRefused) {
  inspected();
  model::PlanSecret made = secret();
  made.header.clear();
  made.methods = {"GET"};
  made.paths = {"/v1/*"};
  broker(made);
  const std::string sign(kPlaceholder);
  for (const std::string& request :
       {get("/v1/" + sign), get("/v1/x?key=" + sign), get("/v2/x", "X-Key: " + sign + "\r\n"),
        "PUT /v1/x HTTP/1.1\r\nHost: origin.test:" + portText() + "\r\nX-Key: " + sign + "\r\n\r\n",
        get("/v1/x", "X-" + sign + ": 1\r\n"),
        get("/v1/x", "X-Key: " + base::toHex(sign) + "\r\n")}) {
    guard->refusals.clear();
    EXPECT_THAT(refused(request), HasSubstr("403 Forbidden")) << request;
    EXPECT_THAT(refusalsText(), HasSubstr("(secret-placeholder)")) << request;
  }
}

TEST_F(Inspect, APlaceholderInABodyIsRefused) {
  inspected();
  broker(secret());
  for (const char* after : {" after", ""}) {
    auto [client, server] = run(pairOverRelay());
    const std::string body = "before " + std::string(kPlaceholder) + after;
    run(client->send("POST / HTTP/1.1\r\nHost: origin.test:" + portText() +
                     "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body));
    auto [answer, seen] = run(both(client->until("}\n"), server->rest()));
    EXPECT_THAT(answer, HasSubstr("403 Forbidden"));
    EXPECT_THAT(seen, Not(HasSubstr(kPlaceholder)));
    EXPECT_THAT(refusalsText(), HasSubstr("(secret-placeholder)"));
  }
}

TEST_F(Inspect, APlaceholderForAnotherHostIsRefused) {
  inspected();
  model::PlanSecret made = secret();
  made.host = "other.test";
  broker(made);
  EXPECT_THAT(refused(get("/", "X-Key: " + std::string(kPlaceholder) + "\r\n")),
              HasSubstr("403 Forbidden"));
  EXPECT_THAT(refusalsText(), HasSubstr("(secret-placeholder)"));
}

TEST_F(Inspect, ABrokeredHeaderGivenTwiceIsRefused) {
  inspected();
  broker(secret());
  EXPECT_THAT(refused(get("/", "Authorization: a\r\nAuthorization: b\r\n")),
              HasSubstr("400 Bad Request"));
  EXPECT_THAT(refusalsText(), HasSubstr("(secret-broker)"));
}

TEST_F(Inspect, ASecretWithoutItsValueIsNotSent) {
  inspected();
  guard->secrets = Broker::make({secret()}, {});
  EXPECT_THAT(refused(get("/")), HasSubstr("503"));
}

TEST_F(Inspect, ACompressedAnswerOfASecretsHostIsRefused) {
  inspected();
  broker(secret());
  const auto [head, answer] = exchange(get("/"), ok("zzzz", "Content-Encoding: gzip\r\n"), "}\n");
  EXPECT_THAT(answer, HasSubstr("502 Bad Gateway"));
  EXPECT_THAT(answer, Not(HasSubstr("zzzz")));
  EXPECT_THAT(refusalsText(), HasSubstr("compresses its answer"));
}

std::string utf16(const std::string& text, bool big) {
  std::string out;
  for (const char c : text)
    out += big ? std::string{'\0', c} : std::string{c, '\0'};
  return out;
}

std::string percent(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += "%" + base::toHex({&c, 1});
  return out;
}

std::string jsonEscapes(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += "\\u00" + base::toHex({&c, 1});
  return out;
}

// The value in each coding, with what an outsider would look for in the result.
std::vector<std::string> codings() {
  const std::string value = "s3cr3t/Value+With=Signs&More";
  return {value,
          base::toBase64(value),
          base::toBase64("x" + value),
          base::toBase64("xy" + value + "z"),
          base::toHex(value),
          percent(value),
          jsonEscapes(value),
          utf16(value, false),
          utf16(value, true)};
}

// The longest run that the text shares with the coding. Alignments share a character or two.
bool hasMuchOf(const std::string& text, const std::string& coded) {
  constexpr size_t kMuch = 12;
  for (size_t at = 0; at + kMuch <= coded.size(); ++at) {
    if (text.contains(coded.substr(at, kMuch))) return true;
  }
  return false;
}

TEST_F(Inspect, NoCodingOfTheValueComesBackInABody) {
  inspected();
  broker(secret());
  for (const std::string& coded : codings()) {
    const std::string body = "{\"echo\": \"" + coded + "\"}";
    const auto [head, answer] = exchange(get("/"), ok(body), "0\r\n\r\n");
    EXPECT_THAT(answer, HasSubstr("[secret api-key]")) << coded;
    EXPECT_FALSE(hasMuchOf(answer, coded)) << coded;
    // Cut into chunks of one byte.
    std::string chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const char c : body)
      chunks += "1\r\n" + std::string(1, c) + "\r\n";
    const auto [again, cut] = exchange(get("/"), chunks + "0\r\n\r\n", "\r\n0\r\n\r\n");
    EXPECT_FALSE(hasMuchOf(cut, coded)) << coded;
    EXPECT_THAT(cut, HasSubstr("[secret api-key]")) << coded;
  }
}

TEST_F(Inspect, NoCodingOfTheValueComesBackInAHead) {
  inspected();
  broker(secret());
  for (const std::string& coded : codings()) {
    if (coded.contains('\0')) continue;  // has no place in a head
    const auto [head, answer] =
        exchange(get("/"),
                 "HTTP/1.1 302 Found\r\nLocation: https://evil.test/?k=" + coded +
                     "\r\nX-Echo: Bearer " + coded + "\r\nContent-Length: 0\r\n\r\n",
                 "\r\n\r\n");
    // A digit of base64 at the edges belongs to other bytes too, and stays.
    EXPECT_THAT(answer,
                testing::ContainsRegex(
                    R"(Location: https://evil\.test/\?k=[[:alnum:]]{0,2}\[secret api-key\])"))
        << coded;
    EXPECT_FALSE(hasMuchOf(answer, coded)) << answer;
  }
}

TEST_F(Inspect, TheValueComesBackToNoHeadRequest) {
  inspected();
  broker(secret());
  const auto [head, answer] = exchange(
      "HEAD / HTTP/1.1\r\nHost: origin.test:" + portText() + "\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 77\r\nX-Echo: " + std::string(kValue) + "\r\n\r\n",
      "\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("Content-Length: 77"));
  EXPECT_THAT(answer, Not(HasSubstr(kValue)));
}

TEST_F(Inspect, PlainHttpIsBrokeredWhereTheRuleSaysHttp) {
  allow(model::Protocol::kHttp);
  broker(secret());
  Socket sandbox = connect();
  run(send(sandbox, get("/")));
  Socket peer = run(accept());
  EXPECT_THAT(run(receiveUntil(peer, "\r\n\r\n")),
              HasSubstr("authorization: Bearer " + std::string(kValue)));
  run(send(peer, ok("echo " + std::string(kValue))));
  const std::string answer = run(receiveUntil(sandbox, "0\r\n\r\n"));
  EXPECT_THAT(answer, HasSubstr("echo [secret api-key]"));
}

TEST_F(Inspect, TcpIsNotBrokeredAndKeepsPlaceholdersIn) {
  allow(model::Protocol::kTcp);
  broker(secret());
  Socket sandbox = connect();
  run(send(sandbox, get("/")));
  Socket peer = run(accept());
  EXPECT_THAT(run(receiveUntil(peer, "\r\n\r\n")), Not(HasSubstr("authorization")));
  run(send(sandbox, "AUTH " + std::string(kPlaceholder) + "\r\n"));
  EXPECT_THAT(run(receive(peer, kAll)), Not(HasSubstr(kPlaceholder)));
  finish();
  EXPECT_THAT(refusalsText(), HasSubstr("(secret-placeholder)"));
}

// --- WebSocket

class InspectWebSocket : public Inspect {
 protected:
  void open() {
    std::tie(client, server) = run(pairOverRelay());
    run(client->send(
        get("/ws",
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            "Sec-WebSocket-Extensions: permessage-deflate\r\n")));
    head = run(server->until("\r\n\r\n"));
    run(
        server->send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                     "Upgrade: websocket\r\n\r\n"));
    EXPECT_THAT(run(client->until("\r\n\r\n")), HasSubstr("101 "));
  }
  static std::string frame(int first, const std::string& payload, bool masked) {
    const std::string mask = "\x11\x22\x33\x44";
    std::string bytes = {static_cast<char>(first),
                         static_cast<char>(payload.size() | (masked ? 0x80U : 0U))};
    if (!masked) return bytes + payload;
    bytes += mask;
    for (size_t i = 0; i < payload.size(); ++i)
      bytes += static_cast<char>(payload[i] ^ mask[i % 4]);
    return bytes;
  }
  std::string read(size_t count) {
    while (client->got.size() < count) {
      char piece[256];
      const auto [error, size] = run([](TlsEnd& end, boost::asio::mutable_buffer into)
                                         -> Task<std::pair<boost::system::error_code, size_t>> {
        auto [failed, got] = co_await end.stream.async_read_some(into, kAwait);
        co_return std::pair(failed, got);
      }(*client, boost::asio::buffer(piece)));
      if (error) break;
      client->got.append(piece, size);
    }
    std::string bytes = client->got.substr(0, count);
    client->got.erase(0, bytes.size());
    return bytes;
  }

  std::unique_ptr<TlsEnd> client;
  std::unique_ptr<TlsEnd> server;
  std::string head;
};

TEST_F(InspectWebSocket, PassesWithItsExtensionsWithoutSecrets) {
  inspected();
  open();
  EXPECT_THAT(head, HasSubstr("permessage-deflate"));
  run(client->send("\xc1\x85mask!ping"));
  EXPECT_EQ(run(server->until("ping")), "\xc1\x85mask!ping");
  run(server->send("\xc1\x04pong"));
  EXPECT_EQ(read(6), "\xc1\x04pong");
}

TEST_F(InspectWebSocket, NoValueComesBackInAFrame) {
  inspected();
  broker(secret());
  open();
  EXPECT_THAT(head, Not(HasSubstr("permessage-deflate")));
  EXPECT_THAT(head, HasSubstr(kValue));
  const std::string value(kValue);
  const std::string clean = "<[secret api-key]>";
  for (const bool masked : {false, true}) {
    run(server->send(frame(0x81, "<" + value + ">", masked)));
    EXPECT_EQ(read(clean.size() + 2), frame(0x81, clean, false));
    // Over two frames, with a ping between them.
    run(server->send(frame(0x01, "<" + value.substr(0, 9), masked) + frame(0x89, value, masked) +
                     frame(0x80, value.substr(9) + ">", masked)));
    std::string all;
    while (!all.contains(">"))
      all += read(1);
    EXPECT_THAT(all, HasSubstr("[secret api-key]"));
    EXPECT_FALSE(hasMuchOf(all, value));
  }
}

TEST_F(InspectWebSocket, APlaceholderInAFrameCuts) {
  inspected();
  broker(secret());
  open();
  const std::string sign(kPlaceholder);
  run(client->send(frame(0x01, sign.substr(0, 10), true) + frame(0x80, sign.substr(10), true)));
  run(server->rest());
  finish();
  EXPECT_THAT(refusalsText(), HasSubstr("(secret-placeholder)"));
}

TEST_F(InspectWebSocket, AFrameThatCannotBeReadCuts) {
  inspected();
  broker(secret());
  open();
  run(server->send("\xc1\x04pong"));
  EXPECT_EQ(run(client->rest()), "");
  finish();
  EXPECT_THAT(refusalsText(), HasSubstr("malformed"));
}

}  // namespace
}  // namespace cloister::egress
