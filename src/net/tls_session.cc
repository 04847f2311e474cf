// SPDX-License-Identifier: Apache-2.0
#include "net/tls_session.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

namespace cloister::net {
namespace {

// A BIO over a socket, as BIO_s_socket(3), but without SIGPIPE. Its data points to the descriptor.
int socketOf(BIO* bio) {
  return *static_cast<const int*>(BIO_get_data(bio));
}

bool again(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int receive(BIO* bio, char* into, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::recv(socketOf(bio), into, static_cast<size_t>(size), 0);
  if (n < 0 && again(errno)) BIO_set_retry_read(bio);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(n);
}

int transmit(BIO* bio, const char* from, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = ::send(socketOf(bio), from, static_cast<size_t>(size), MSG_NOSIGNAL);
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

BIO* bioOf(int& socket) {
  BIO* bio = BIO_new(quietSocket());
  if (bio == nullptr) return nullptr;
  BIO_set_data(bio, &socket);
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

int mostOf(size_t size) {
  return static_cast<int>(std::min<size_t>(size, INT_MAX));
}

}  // namespace

std::unique_ptr<TlsSession> TlsSession::make(SSL_CTX* context, const std::string& host,
                                             int socket) {
  std::unique_ptr<TlsSession> made(new TlsSession(socket));
  made->session_.reset(SSL_new(context));
  SSL* session = made->session_.get();
  BIO* bio = session == nullptr ? nullptr : bioOf(made->socket_);
  if (bio == nullptr) return nullptr;
  SSL_set_bio(session, bio, bio);
  SSL_set_mode(session, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_AUTO_RETRY | SSL_MODE_RELEASE_BUFFERS);
  SSL_set_verify(session, SSL_VERIFY_PEER, nullptr);
  if (!host.empty() && !expectHost(session, host)) return nullptr;
  SSL_set_connect_state(session);
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

std::string TlsSession::certificateFault() const {
  const long verdict = SSL_get_verify_result(session_.get());
  return verdict == X509_V_OK ? "" : X509_verify_cert_error_string(verdict);
}

bool TlsSession::isForAnother() const {
  const long verdict = SSL_get_verify_result(session_.get());
  return verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH;
}

}  // namespace cloister::net
