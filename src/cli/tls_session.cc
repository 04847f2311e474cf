// SPDX-License-Identifier: Apache-2.0
#include "cli/tls_session.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <thread>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

namespace cloister::cli {
namespace {

std::string variable(const char* name) {
  const char* text = ::getenv(name);
  return text == nullptr ? std::string() : std::string(text);
}

// The oldest error of this thread, and forgets the rest.
std::string lastError() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return text == nullptr ? "it cannot be used" : text;
}

std::unexpected<Error> wrongFile(std::string_view name, const std::string& file) {
  return fail(Code::kInvalid, std::string(name) + ": " + file + ": " + lastError());
}

Result<> believe(SSL_CTX* context, const Trust& trust) {
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  if (!trust.pinned.empty()) {
    // The first of the file alone: behind it are its issuers, who have issued others.
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> file(
        BIO_new_file(trust.pinned.c_str(), "r"), &BIO_free_all);
    const std::unique_ptr<X509, decltype(&X509_free)> own(
        file ? PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr) : nullptr, &X509_free);
    if (!own || X509_STORE_add_cert(SSL_CTX_get_cert_store(context), own.get()) != 1) {
      return wrongFile("the server's certificate", trust.pinned);
    }
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  } else if (!trust.ca_file.empty()) {
    if (SSL_CTX_load_verify_file(context, trust.ca_file.c_str()) != 1) {
      return wrongFile("CLOISTER_CA", trust.ca_file);
    }
  } else {
    SSL_CTX_set_default_verify_paths(context);
  }
  return {};
}

Result<> show(SSL_CTX* context, const Trust& trust) {
  if (trust.certificate.empty()) return {};
  // Nobody is asked for a password: this may be a program's call.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_certificate_chain_file(context, trust.certificate.c_str()) != 1) {
    return wrongFile("CLOISTER_CERT", trust.certificate);
  }
  const std::string& key = trust.key.empty() ? trust.certificate : trust.key;
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return wrongFile("CLOISTER_CERT_KEY", key);
  }
  return {};
}

// Whose name must be in the certificate (RFC 9525).
bool expectHost(SSL* session, const std::string& host) {
  X509_VERIFY_PARAM* rules = SSL_get0_param(session);
  if (X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1) return true;
  ERR_clear_error();
  return SSL_set_tlsext_host_name(session, host.c_str()) == 1 &&
         X509_VERIFY_PARAM_set1_host(rules, host.c_str(), host.size()) == 1;
}

// --- the thread behind a detached connection
// -----------------------------------------------------

class Passing {
 public:
  Passing(std::unique_ptr<TlsSession> session, Fd socket, Fd here)
      : socket_(std::move(socket)), here_(std::move(here)), session_(std::move(session)) {}

  void run() {
    while (!(in_over_ && out_over_)) {
      short remote = 0;
      if (!inward(remote) || !outward(remote)) return;
      if (in_over_ && out_over_) return;
      pollfd polled[2] = {{here_.get(), wantedHere(), 0}, {socket_.get(), remote, 0}};
      if (::poll(polled, 2, -1) < 0 && errno != EINTR) return;
    }
  }

 private:
  // From the server to here. False: the connection is of no more use.
  bool inward(short& remote) {
    while (!in_over_ && come_.empty()) {
      char chunk[16'384];
      const auto step = session_->read(chunk, sizeof chunk);
      if (!step) return false;
      if (step->wait != 0) {
        remote = static_cast<short>(remote | step->wait);
        return true;
      }
      in_over_ = step->bytes == 0;
      come_.assign(chunk, static_cast<size_t>(step->bytes));
      if (in_over_) ::shutdown(here_.get(), SHUT_WR);
      if (!give()) return false;
    }
    return give();
  }

  bool give() {
    while (!come_.empty()) {
      const ssize_t n = ::send(here_.get(), come_.data(), come_.size(), MSG_NOSIGNAL);
      if (n > 0) come_.erase(0, static_cast<size_t>(n));
      if (n < 0 && errno != EINTR) return errno == EAGAIN;
    }
    return true;
  }

  // From here to the server.
  bool outward(short& remote) {
    while (!out_over_) {
      if (gone_.empty()) {
        char chunk[16'384];
        const ssize_t n = ::recv(here_.get(), chunk, sizeof chunk, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno == EAGAIN;
        gone_.assign(chunk, static_cast<size_t>(n));
        if (n == 0) {
          session_->sayEnd();
          out_over_ = true;
          return true;
        }
      }
      const auto step = session_->write(gone_);
      if (!step) return false;
      remote = static_cast<short>(remote | step->wait);
      if (step->wait != 0) return true;
      gone_.erase(0, static_cast<size_t>(step->bytes));
    }
    return true;
  }

  [[nodiscard]] short wantedHere() const {
    const int in = !out_over_ && gone_.empty() ? POLLIN : 0;
    return static_cast<short>(in | (come_.empty() ? 0 : POLLOUT));
  }

  Fd socket_;
  Fd here_;
  std::unique_ptr<TlsSession> session_;  // goes before the socket that it is on
  std::string come_;                     // for here
  std::string gone_;                     // for the server
  bool in_over_ = false;
  bool out_over_ = false;
};

}  // namespace

Trust Trust::fromEnvironment() {
  return {.ca_file = variable("CLOISTER_CA"),
          .pinned = {},
          .certificate = variable("CLOISTER_CERT"),
          .key = variable("CLOISTER_CERT_KEY")};
}

void TlsSession::Free::operator()(ssl_st* session) const {
  SSL_free(session);
}

void TlsSession::Free::operator()(ssl_ctx_st* context) const {
  SSL_CTX_free(context);
}

TlsSession::~TlsSession() = default;

Result<std::unique_ptr<TlsSession>> TlsSession::make(const Trust& trust, const std::string& host,
                                                     int socket) {
  std::unique_ptr<TlsSession> made(new TlsSession);
  made->context_.reset(SSL_CTX_new(TLS_client_method()));
  if (!made->context_) return fail(Code::kInternal, "preparing TLS: " + lastError());
  SSL_CTX* context = made->context_.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                SSL_MODE_AUTO_RETRY);
  TRY(believe(context, trust));
  TRY(show(context, trust));
  made->session_.reset(SSL_new(context));
  SSL* session = made->session_.get();
  if (session == nullptr || SSL_set_fd(session, socket) != 1) {
    return fail(Code::kInternal, "preparing TLS: " + lastError());
  }
  if (trust.pinned.empty() && !expectHost(session, host)) {
    return fail(Code::kInvalid, "preparing TLS: " + host + " is no name of a server");
  }
  SSL_set_connect_state(session);
  return made;
}

Result<TlsSession::Step> TlsSession::outcome(int result, std::string_view doing) {
  if (result > 0) return Step{result, 0};
  const int cause = errno;
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Step{0, POLLIN};
    case SSL_ERROR_WANT_WRITE:
      return Step{0, POLLOUT};
    case SSL_ERROR_ZERO_RETURN:
      return Step{0, 0};
    case SSL_ERROR_SYSCALL:
      if (cause != 0) return fail(Code::kUnavailable, std::string(doing) + strerrordesc_np(cause));
      [[fallthrough]];
    default:
      return fail(Code::kUnavailable, std::string(doing) + lastError());
  }
}

Result<TlsSession::Step> TlsSession::handshake() {
  ERR_clear_error();
  auto step = outcome(SSL_do_handshake(session_.get()), "TLS: ");
  const long verdict = SSL_get_verify_result(session_.get());
  if (step || verdict == X509_V_OK) return step;
  return fail(Code::kUnavailable,
              std::string("TLS: the server's certificate is not believed: ") +
                  X509_verify_cert_error_string(verdict) +
                  "; CLOISTER_CA names a file of the authority that it is from");
}

Result<TlsSession::Step> TlsSession::read(char* into, size_t size) {
  ERR_clear_error();
  const int most = static_cast<int>(std::min<size_t>(size, INT_MAX));
  return outcome(SSL_read(session_.get(), into, most), "TLS: ");
}

Result<TlsSession::Step> TlsSession::write(std::string_view bytes) {
  ERR_clear_error();
  const int most = static_cast<int>(std::min<size_t>(bytes.size(), INT_MAX));
  return outcome(SSL_write(session_.get(), bytes.data(), most), "TLS: ");
}

void TlsSession::sayEnd() {
  ERR_clear_error();
  SSL_shutdown(session_.get());
}

Result<Fd> TlsSession::passOn(std::unique_ptr<TlsSession> session, Fd socket) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
    return failErrno("making a pair of sockets");
  }
  Fd theirs(ends[0]);
  Passing passing(std::move(session), std::move(socket), Fd(ends[1]));
  std::thread([passing = std::move(passing)]() mutable { passing.run(); }).detach();
  return theirs;
}

}  // namespace cloister::cli
