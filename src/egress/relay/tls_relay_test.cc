// SPDX-License-Identifier: Apache-2.0
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include "egress/relay/relay_testing.h"

namespace cloister::egress {
namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;
using model::Protocol;
using namespace asio::experimental::awaitable_operators;

// A server's context with a certificate of its own.
void certify(ssl::context& context) {
  const std::unique_ptr<EVP_PKEY, decltype(&::EVP_PKEY_free)> key(::EVP_EC_gen("P-256"),
                                                                  &::EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&::X509_free)> certificate(::X509_new(), &::X509_free);
  ::X509_gmtime_adj(::X509_getm_notBefore(certificate.get()), 0);
  ::X509_gmtime_adj(::X509_getm_notAfter(certificate.get()), 3600);
  ::X509_set_pubkey(certificate.get(), key.get());
  ::X509_sign(certificate.get(), key.get(), ::EVP_sha256());
  ::SSL_CTX_use_certificate(context.native_handle(), certificate.get());
  ::SSL_CTX_use_PrivateKey(context.native_handle(), key.get());
}

class TlsRelay : public RelayTest {
 protected:
  TlsRelay() {
    certify(server_context);
    client_context.set_verify_mode(ssl::verify_none);
  }

  Task<std::string> handshake(Socket& sandbox, std::string server_name) {
    ssl::stream<Socket&> stream(sandbox, client_context);
    if (!server_name.empty())
      ::SSL_set_tlsext_host_name(stream.native_handle(), server_name.c_str());
    const auto [error] = co_await stream.async_handshake(ssl::stream_base::client, kAwait);
    if (error) co_return error.message();
    co_await asio::async_write(stream, asio::buffer("ping", 4), kAwait);
    std::string answer(4, '\0');
    co_await asio::async_read(stream, asio::buffer(answer), kAwait);
    co_return answer;
  }
  // An origin that answers "ping" by "pong".
  Task<std::string> serve() {
    Socket peer = co_await accept();
    ssl::stream<Socket&> stream(peer, server_context);
    co_await stream.async_handshake(ssl::stream_base::server, kAwait);
    std::string question(4, '\0');
    co_await asio::async_read(stream, asio::buffer(question), kAwait);
    co_await asio::async_write(stream, asio::buffer("pong", 4), kAwait);
    co_return question;
  }
  Task<std::tuple<std::string, std::string>> both(Socket& sandbox) {
    co_return co_await (handshake(sandbox, "origin.test") && serve());
  }
  // The client's error for a refused handshake.
  std::string refusedHandshake(const std::string& server_name) {
    Socket sandbox = connect();
    const std::string said = run(handshake(sandbox, server_name));
    sandbox.close();
    finish();
    EXPECT_FALSE(sawConnection());
    EXPECT_EQ(guard->refusals.size(), 1U);
    return said;
  }

  ssl::context client_context{ssl::context::tls_client};
  ssl::context server_context{ssl::context::tls_server};
};

TEST_F(TlsRelay, PassesTlsToTheNamedServer) {
  allow(Protocol::kTls);
  Socket sandbox = connect();
  const auto [answer, question] = run(both(sandbox));
  EXPECT_EQ(answer, "pong");
  EXPECT_EQ(question, "ping");
  EXPECT_GT(guard->bytes_out, 200U);  // the hello counts too
  EXPECT_TRUE(guard->refusals.empty());
}

TEST_F(TlsRelay, RefusesAHelloForAnotherServer) {
  allow(Protocol::kTls);
  const std::string said = refusedHandshake("evil.test");
  EXPECT_TRUE(said.contains("access denied")) << said;
  EXPECT_TRUE(refusalsText().contains("evil.test")) << refusalsText();
}

TEST_F(TlsRelay, RefusesAHelloWithoutAServer) {
  allow(Protocol::kTls);
  refusedHandshake("");
  EXPECT_TRUE(refusalsText().contains("names no server")) << refusalsText();
}

TEST_F(TlsRelay, RefusesAnEncryptedHello) {
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
  allow(Protocol::kTls);
  refusedHandshake("origin.test");
  EXPECT_TRUE(refusalsText().contains("ECH")) << refusalsText();
  // A rule for every name allows the encrypted name as well.
  guard->plan.rules[0].anyone = true;
  Socket sandbox = connect();
  const auto [answer, question] = run(both(sandbox));
  EXPECT_EQ(answer, "pong");
}

TEST_F(TlsRelay, RefusesAnotherProtocol) {
  allow(Protocol::kTls);
  Socket sandbox = connect();
  run(send(sandbox, "GET / HTTP/1.1\r\nHost: origin.test\r\n\r\n"));
  const std::string answer = run(receive(sandbox, kAll));
  EXPECT_TRUE(answer.starts_with("\x15\x03")) << answer;
  sandbox.close();
  finish();
  EXPECT_TRUE(refusalsText().contains("The rule is for tls")) << refusalsText();
  EXPECT_FALSE(sawConnection());
}

TEST_F(TlsRelay, ASlowHelloEndsInTime) {
  allow(Protocol::kTls);
  limits.greeting = Millis(100);
  Socket sandbox = connect();
  run(send(sandbox, std::string("\x16\x03\x01", 3)));
  boost::system::error_code error;
  EXPECT_EQ(run(receive(sandbox, 1, &error)), "");
  EXPECT_EQ(error, asio::error::connection_reset);
  finish();
  EXPECT_FALSE(sawConnection());
}

}  // namespace
}  // namespace cloister::egress
