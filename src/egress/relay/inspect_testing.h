// SPDX-License-Identifier: Apache-2.0
// InspectTest: as RelayTest, for connections whose TLS is read: a TLS client in the sandbox that
// trusts the sandbox's authority, and a TLS origin with a certificate of the test's own authority.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>

#include "egress/dial/tls_proxy_testing.h"
#include "egress/h2/session.h"
#include "egress/relay/relay_testing.h"

namespace cloister::egress {

// One end of TLS.
struct TlsEnd {
  using Socket = boost::asio::ip::tcp::socket;
  template <class T>
  using Coroutine = boost::asio::awaitable<T>;
  static constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

  TlsEnd(Socket opened, boost::asio::ssl::context& context) : stream(std::move(opened), context) {}

  // "": it is done.
  Coroutine<std::string> shake(bool server) {
    using boost::asio::ssl::stream_base;
    const auto [error] =
        co_await stream.async_handshake(server ? stream_base::server : stream_base::client, kAwait);
    co_return error ? error.message() : "";
  }
  Coroutine<void> send(std::string bytes) {
    co_await boost::asio::async_write(stream, boost::asio::buffer(bytes), kAwait);
  }
  // Until the text, or the end.
  Coroutine<std::string> until(std::string text) {
    while (!got.contains(text)) {
      char piece[4096];
      const auto [error, count] =
          co_await stream.async_read_some(boost::asio::buffer(piece), kAwait);
      if (error) break;
      got.append(piece, count);
    }
    const size_t at = got.find(text);
    const size_t end = at == std::string::npos ? got.size() : at + text.size();
    std::string all = got.substr(0, end);
    got.erase(0, end);
    co_return all;
  }
  // Until the end.
  Coroutine<std::string> rest() {
    for (;;) {
      char piece[16384];
      const auto [error, count] =
          co_await stream.async_read_some(boost::asio::buffer(piece), kAwait);
      if (error) break;
      got.append(piece, count);
    }
    co_return std::exchange(got, {});
  }
  [[nodiscard]] std::string protocol() {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    ::SSL_get0_alpn_selected(stream.native_handle(), &name, &size);
    return {reinterpret_cast<const char*>(name), size};
  }
  void close() { stream.next_layer().close(); }
  // Sends nothing more, and not that this was all.
  void leave() { stream.next_layer().shutdown(Socket::shutdown_send); }

  boost::asio::ssl::stream<Socket> stream;
  std::string got;
};

inline std::string alpnOf(const std::vector<std::string>& protocols) {
  std::string list;
  for (const std::string& each : protocols)
    list += static_cast<char>(each.size()) + each;
  return list;
}

class InspectTest : public RelayTest {
 protected:
  InspectTest() {
    origin_authority.certify(server_context, "DNS:origin.test");
    dialWith({.origins = readOrigins(origin_authority.path()).value()});
    guard->issuer = Authority::make({"origin.test"}).value();
    trust(*guard->issuer);
  }

  // A rule for the origin that inspects.
  model::PlanRule& inspected() {
    model::PlanRule& rule = allow(model::Protocol::kTls);
    rule.entry.inspect = true;
    return rule;
  }
  // A secret for the origin, with its value.
  model::PlanSecret secret() const {
    model::PlanSecret made;
    made.id = "use_1";
    made.name = "api-key";
    made.version = 1;
    made.host = "origin.test";
    made.port = port();
    made.header = "authorization";
    made.format = "Bearer {}";
    made.placeholder = kPlaceholder;
    return made;
  }
  void broker(model::PlanSecret secret) {
    std::string id = secret.id;
    guard->secrets =
        Broker::make({std::move(secret)}, intoVault({{std::move(id), kValue}}).value());
  }
  static constexpr const char* kPlaceholder = "cloister-placeholder-7f3a9b2c5d";
  static constexpr const char* kValue = "s3cr3t/Value+With=Signs&More";

  void trust(const Authority& authority) {
    client_context.add_certificate_authority(
        boost::asio::buffer(authority.certificate().data(), authority.certificate().size()));
    client_context.set_verify_mode(boost::asio::ssl::verify_peer);
  }
  void offer(const std::vector<std::string>& protocols) {
    const std::string list = alpnOf(protocols);
    ::SSL_CTX_set_alpn_protos(client_context.native_handle(),
                              reinterpret_cast<const unsigned char*>(list.data()),
                              static_cast<unsigned>(list.size()));
  }
  // The origin takes the first of these that it is offered.
  void choose(std::vector<std::string> protocols) {
    chosen_ = alpnOf(protocols);
    ::SSL_CTX_set_alpn_select_cb(
        server_context.native_handle(),
        [](SSL*, const unsigned char** out, unsigned char* size, const unsigned char* offered,
           unsigned offered_size, void* list) {
          const auto& own = *static_cast<std::string*>(list);
          unsigned char* chosen = nullptr;
          const int result = ::SSL_select_next_proto(
              &chosen, size, reinterpret_cast<const unsigned char*>(own.data()),
              static_cast<unsigned>(own.size()), offered, offered_size);
          *out = chosen;
          return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
        },
        &chosen_);
  }

  // Both ends after their handshakes, which fail the test if they fail.
  Task<std::pair<std::unique_ptr<TlsEnd>, std::unique_ptr<TlsEnd>>> pairOverRelay() {
    using namespace boost::asio::experimental::awaitable_operators;
    auto client = std::make_unique<TlsEnd>(connect(), client_context);
    name(*client, "origin.test");
    auto [fault, server] = co_await (client->shake(false) && serveTls());
    EXPECT_EQ(fault, "");
    EXPECT_NE(server, nullptr) << refusalsText();
    co_return std::pair(std::move(client), std::move(server));
  }
  static void name(TlsEnd& client, const std::string& server) {
    ::SSL_set_tlsext_host_name(client.stream.native_handle(), server.c_str());
    client.stream.set_verify_callback(boost::asio::ssl::host_name_verification(server));
  }
  Task<std::unique_ptr<TlsEnd>> serveTls() {
    auto server = std::make_unique<TlsEnd>(co_await accept(), server_context);
    const std::string fault = co_await server->shake(true);
    if (!fault.empty()) server.reset();
    co_return server;
  }
  // The client's error for a refused handshake; the origin may be reached.
  std::string refusedHandshake() {
    using namespace boost::asio::experimental::awaitable_operators;
    TlsEnd client(connect(), client_context);
    name(client, "origin.test");
    async::spawn(io.get_executor(), [](InspectTest& test) -> Task<void> {
      std::ignore = co_await test.serveTls();
    }(*this));
    std::string fault = run(client.shake(false));
    client.close();
    finish();
    EXPECT_EQ(guard->refusals.size(), 1U) << refusalsText();
    return fault;
  }

  TestAuthority origin_authority;
  boost::asio::ssl::context client_context{boost::asio::ssl::context::tls_client};
  boost::asio::ssl::context server_context{boost::asio::ssl::context::tls_server};

 private:
  std::string chosen_;
};

// One end of HTTP/2 over TLS, which keeps what it saw.
class H2Peer final : public h2::Events {
 public:
  struct Seen {
    h2::Message head;
    std::vector<int> interim;
    h2::Fields trailers;
    std::string body;
    bool ended = false;
    bool closed = false;
    uint32_t error = 0;
  };
  H2Peer(std::unique_ptr<TlsEnd> end, h2::Role role)
      : end_(std::move(end)), session_(h2::Session::make(role, *this, {}).value()) {}

  h2::Session& session() { return *session_; }
  TlsEnd& tls() { return *end_; }
  Seen& of(int32_t stream) { return seen_[stream]; }
  // The streams of which a head came.
  [[nodiscard]] std::vector<int32_t> streams() const {
    std::vector<int32_t> all;
    for (const auto& [stream, seen] : seen_)
      all.push_back(stream);
    return all;
  }
  bool left = false;     // GOAWAY
  bool consumes = true;  // acknowledges bodies
  // Called for each head and each end of a body.
  std::function<void(int32_t stream)> on_head = [](int32_t) {};
  std::function<void(int32_t stream)> on_data = [](int32_t) {};
  std::function<void(int32_t stream)> on_end = [](int32_t) {};

  // Reads and writes until `done`, or the end of the connection.
  boost::asio::awaitable<void> until(std::function<bool()> done) {
    for (;;) {
      co_await flush();
      if (done()) co_return;
      char piece[16384];
      const auto [error, count] =
          co_await end_->stream.async_read_some(boost::asio::buffer(piece), TlsEnd::kAwait);
      if (error || !session_->feed({piece, count})) {
        co_await flush();
        co_return;
      }
    }
  }
  boost::asio::awaitable<void> flush() {
    for (;;) {
      const std::string bytes = session_->take(size_t{64} << 10);
      if (bytes.empty()) co_return;
      co_await end_->send(bytes);
    }
  }
  void close() { end_->close(); }
  void leave() { end_->leave(); }

  // --- Events

  void head(int32_t stream, h2::Message message, bool trailers, bool end) override {
    Seen& seen = seen_[stream];
    if (trailers) {
      seen.trailers = std::move(message.fields);
    } else if (message.status >= 100 && message.status < 200) {
      seen.interim.push_back(message.status);
      return;
    } else {
      seen.head = std::move(message);
      on_head(stream);
    }
    if (end) ended(stream);
  }
  void data(int32_t stream, std::string_view bytes) override {
    seen_[stream].body += bytes;
    if (consumes) session_->consumed(stream, bytes.size());
    on_data(stream);
  }
  void end(int32_t stream) override { ended(stream); }
  void closed(int32_t stream, uint32_t error) override {
    seen_[stream].closed = true;
    seen_[stream].error = error;
  }
  void sent(int32_t, size_t, size_t) override {}
  void goingAway() override { left = true; }

 private:
  void ended(int32_t stream) {
    seen_[stream].ended = true;
    on_end(stream);
  }

  std::unique_ptr<TlsEnd> end_;
  std::unique_ptr<h2::Session> session_;
  std::map<int32_t, Seen> seen_;
};

}  // namespace cloister::egress
