// SPDX-License-Identifier: Apache-2.0
// The client's side of TLS (1.2 and 1.3) on a non-blocking socket, over OpenSSL. One thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

// OpenSSL's own, kept out of this header.
struct ssl_st;
struct ssl_ctx_st;

namespace cloister::cli {

// Whom to believe, and what to show of ourselves.
struct Trust {
  std::string ca_file;      // PEM; "": the system's authorities
  std::string pinned;       // PEM; not "": the very certificate, whatever name it has
  std::string certificate;  // PEM; "": none is shown
  std::string key;          // PEM of its private key; "": in the same file

  // $CLOISTER_CA, $CLOISTER_CERT and $CLOISTER_CERT_KEY.
  static Trust fromEnvironment();
};

class TlsSession {
 public:
  // What one step came to. `wait`: poll(2) for that, then do the same again.
  struct Step {
    ssize_t bytes = 0;  // moved; 0 with `wait` 0: the peer has said its farewell
    short wait = 0;
  };

  // On `socket`, which outlives it. kInvalid names the variable whose file cannot be used.
  static Result<std::unique_ptr<TlsSession>> make(const Trust& trust, const std::string& host,
                                                  int socket);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  // `bytes` 1 once done. An error says why the server is not believed, and what can be done.
  Result<Step> handshake();
  Result<Step> read(char* into, size_t size);
  Result<Step> write(std::string_view bytes);
  // Says that no more will be written.
  void sayEnd();

  // A socket behind which a thread of its own passes on what goes either way, until both have
  // ended. `session` is on `socket`.
  static Result<Fd> passOn(std::unique_ptr<TlsSession> session, Fd socket);

 private:
  struct Free {
    void operator()(ssl_st* session) const;
    void operator()(ssl_ctx_st* context) const;
  };
  TlsSession() = default;
  Result<Step> outcome(int result, std::string_view doing);

  std::unique_ptr<ssl_ctx_st, Free> context_;
  std::unique_ptr<ssl_st, Free> session_;
};

}  // namespace cloister::cli
