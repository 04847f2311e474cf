// SPDX-License-Identifier: Apache-2.0
#include "net/tls_session.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

namespace cloister::net {
namespace {

// Under a BIO over a socket, as BIO_s_socket(3), but without SIGPIPE.
struct Below {
  int socket = -1;
  std::string arrived;  // comes before the socket's own bytes
};

Below& belowOf(BIO* bio) {
  return *static_cast<Below*>(BIO_get_data(bio));
}

bool again(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int receive(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  Below& below = belowOf(bio);
  if (!below.arrived.empty()) {
    const size_t count = below.arrived.copy(into, static_cast<size_t>(size));
    below.arrived.erase(0, count);
    return static_cast<int>(count);
  }
  const ssize_t n = ::recv(below.socket, into, static_cast<size_t>(size), 0);
  if (n < 0 && again(errno)) BIO_set_retry_read(bio);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(n);
}

int transmit(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(belowOf(bio).socket, from, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (n < 0 && again(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

long control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

const BIO_METHOD* quietSocket() {
  static const BIO_METHOD* const kMethod = [] {
    BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    BIO_meth_set_read(method, receive);
    BIO_meth_set_write(method, transmit);
    BIO_meth_set_ctrl(method, control);
    return method;
  }();
  return kMethod;
}

BIO* bioOf(Below& below) {
  BIO* bio = BIO_new(quietSocket());
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, &below);
  BIO_set_init(bio, 1);
  return bio;
}

bool expectHost(SSL* session, const std::string& host) {
  X509_VERIFY_PARAM* rules = SSL_get0_param(session);
  if (X509_VERIFY_PARAM_set1_ip_asc(rules, host.c_str()) == 1) return true;  // no address is sent
  ERR_clear_error();
  return SSL_set_tlsext_host_name(session, host.c_str()) == 1 &&
         X509_VERIFY_PARAM_set1_host(rules, host.c_str(), host.size()) == 1;
}

// The list of ALPN (RFC 7301 §3.1): each protocol behind its length.
bool offer(SSL* session, std::span<const std::string> protocols) {
  std::string list;
  for (const std::string& protocol : protocols) {
    if (protocol.empty() || protocol.size() > UINT8_MAX) return false;
    list += static_cast<char>(protocol.size());
    list += protocol;
  }
  // 0 is success here.
  return SSL_set_alpn_protos(session, reinterpret_cast<const unsigned char*>(list.data()),
                             static_cast<unsigned>(list.size())) == 0;
}

int mostOf(size_t size) {
  return static_cast<int>(std::min<size_t>(size, INT_MAX));
}

}  // namespace

struct TlsSession::Wire : Below {};

TlsSession::TlsSession(int socket, std::string arrived)
    : wire_(std::make_unique<Wire>(Wire{{.socket = socket, .arrived = std::move(arrived)}})) {}
TlsSession::~TlsSession() = default;

std::unique_ptr<TlsSession> TlsSession::over(SSL_CTX* context, int socket, std::string arrived) {
  std::unique_ptr<TlsSession> made(new TlsSession(socket, std::move(arrived)));
  made->session_.reset(SSL_new(context));
  SSL* session = made->session_.get();
  BIO* bio = session == nullptr ? nullptr : bioOf(*made->wire_);
  if (bio == nullptr) return nullptr;
  SSL_set_bio(session, bio, bio);
  SSL_set_mode(session, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_AUTO_RETRY | SSL_MODE_RELEASE_BUFFERS);
  return made;
}

std::unique_ptr<TlsSession> TlsSession::make(SSL_CTX* context, const std::string& host, int socket,
                                             std::span<const std::string> protocols) {
  auto made = over(context, socket, {});
  if (!made) return nullptr;
  SSL* session = made->session_.get();
  SSL_set_verify(session, SSL_VERIFY_PEER, nullptr);
  if (!host.empty() && !expectHost(session, host)) return nullptr;
  if (!protocols.empty() && !offer(session, protocols)) return nullptr;
  SSL_set_connect_state(session);
  return made;
}

std::unique_ptr<TlsSession> TlsSession::accept(SSL_CTX* context, int socket, std::string arrived) {
  auto made = over(context, socket, std::move(arrived));
  if (made) SSL_set_accept_state(made->session_.get());
  return made;
}

TlsSession::Step TlsSession::outcome(int result, size_t bytes) {
  if (result > 0) return {.error = {}, .bytes = bytes};
  const int cause = errno;
  Step step;
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      step.wait = Wait::kRead;
      return step;
    case SSL_ERROR_WANT_WRITE:
      step.wait = Wait::kWrite;
      return step;
    case SSL_ERROR_ZERO_RETURN:
      step.error = boost::asio::error::eof;
      return step;
    case SSL_ERROR_SYSCALL:
      if (cause != 0) {
        step.error.assign(cause, boost::system::system_category());
        return step;
      }
      [[fallthrough]];
    default:
      step.error = boost::asio::ssl::error::stream_truncated;
      if (const unsigned long code = ERR_get_error(); code != 0) {
        step.error.assign(static_cast<int>(code), boost::asio::error::get_ssl_category());
      }
      ERR_clear_error();
      return step;
  }
}

TlsSession::Step TlsSession::handshake() {
  ERR_clear_error();
  errno = 0;
  return outcome(SSL_do_handshake(session_.get()), 0);
}

TlsSession::Step TlsSession::read(void* into, size_t size) {
  ERR_clear_error();
  errno = 0;
  const int n = SSL_read(session_.get(), into, mostOf(size));
  return outcome(n, static_cast<size_t>(std::max(n, 0)));
}

TlsSession::Step TlsSession::write(const void* from, size_t size) {
  ERR_clear_error();
  errno = 0;
  const int n = SSL_write(session_.get(), from, mostOf(size));
  return outcome(n, static_cast<size_t>(std::max(n, 0)));
}

TlsSession::Step TlsSession::sayEnd() {
  ERR_clear_error();
  errno = 0;
  const int result = SSL_shutdown(session_.get());
  return result < 0 ? outcome(result, 0) : Step{};
}

TlsSession::Step TlsSession::peek() {
  ERR_clear_error();
  errno = 0;
  char byte = 0;
  const int n = SSL_peek(session_.get(), &byte, 1);
  return outcome(n, static_cast<size_t>(std::max(n, 0)));
}

bool TlsSession::pending() const {
  return SSL_pending(session_.get()) > 0 || !wire_->arrived.empty();
}

std::string TlsSession::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(session_.get(), &name, &size);
  return size == 0 ? std::string() : std::string(reinterpret_cast<const char*>(name), size);
}

std::string TlsSession::certificateFault() const {
  const long verdict = SSL_get_verify_result(session_.get());
  return verdict == X509_V_OK ? "" : X509_verify_cert_error_string(verdict);
}

bool TlsSession::isForAnother() const {
  const long verdict = SSL_get_verify_result(session_.get());
  return verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH;
}

}  // namespace cloister::net
