// SPDX-License-Identifier: Apache-2.0
// TLS on a non-blocking socket, over OpenSSL, without waiting. A blocked step returns the condition
// to wait for, so giving up a wait loses nothing. No step raises SIGPIPE. ClientStream and the
// relays of cloister-egress are written over it. One thread; a read and a write may take turns.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>

#include <boost/system/error_code.hpp>
#include <openssl/ssl.h>

namespace cloister::net {

class TlsSession {
 public:
  enum class Wait { kNone, kRead, kWrite };  // for the socket, before the step is repeated
  struct Step {
    boost::system::error_code error;  // asio::error::eof: the peer has ended its side
    size_t bytes = 0;                 // moved
    Wait wait = Wait::kNone;
  };

  // The client's side. Keep `socket` open for as long as the session. `host` must be in the peer's
  // certificate (RFC 9525); "": the context trusts one certificate alone. `protocols` are offered
  // to the peer (ALPN). Null: TLS cannot send `host`.
  static std::unique_ptr<TlsSession> make(SSL_CTX* context, const std::string& host, int socket,
                                          std::span<const std::string> protocols = {});
  // The server's side. `arrived`: the peer's first bytes, already read from the socket. Null: no
  // memory.
  static std::unique_ptr<TlsSession> accept(SSL_CTX* context, int socket, std::string arrived);

  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  Step handshake();
  Step read(void* into, size_t size);
  Step write(const void* from, size_t size);
  Step sayEnd();  // no more will be written
  // Reads what has come, but leaves bytes of the application for read(). `bytes`: 1 if there are
  // some.
  Step peek();
  // Whether read() has bytes to work on without the socket.
  [[nodiscard]] bool pending() const;
  // The application's protocol that was agreed on (ALPN); "" for none.
  [[nodiscard]] std::string protocol() const;
  [[nodiscard]] SSL* native() const { return session_.get(); }

  // After a failed handshake: the fault of the peer's certificate, or "".
  [[nodiscard]] std::string certificateFault() const;
  // The same: the certificate is good, for another host.
  [[nodiscard]] bool isForAnother() const;

 private:
  struct Free {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  struct Wire;  // below TLS
  TlsSession(int socket, std::string arrived);
  static std::unique_ptr<TlsSession> over(SSL_CTX* context, int socket, std::string arrived);
  Step outcome(int result, size_t bytes);

  std::unique_ptr<Wire> wire_;
  std::unique_ptr<SSL, Free> session_;
};

}  // namespace cloister::net
