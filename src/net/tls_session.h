// SPDX-License-Identifier: Apache-2.0
// The client's side of TLS on a non-blocking socket, over OpenSSL, without waiting. A blocked step
// returns the condition to wait for, so giving up a wait loses nothing. No step raises SIGPIPE.
// Internal to ClientStream. One thread.
#pragma once

#include <memory>
#include <string>

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

  // Keep `socket` open for as long as the session. `host` must be in the peer's certificate (RFC
  // 9525); "": the context trusts one certificate alone. Null: TLS cannot send `host`.
  static std::unique_ptr<TlsSession> make(SSL_CTX* context, const std::string& host, int socket);

  ~TlsSession() = default;
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  Step handshake();
  Step read(void* into, size_t size);
  Step write(const void* from, size_t size);
  Step sayEnd();  // no more will be written

  // After a failed handshake: the fault of the peer's certificate, or "".
  [[nodiscard]] std::string certificateFault() const;
  // The same: the certificate is good, for another host.
  [[nodiscard]] bool isForAnother() const;

 private:
  struct Free {
    void operator()(SSL* session) const { SSL_free(session); }
  };
  explicit TlsSession(int socket) : socket_(socket) {}
  Step outcome(int result, size_t bytes);

  int socket_;
  std::unique_ptr<SSL, Free> session_;
};

}  // namespace cloister::net
