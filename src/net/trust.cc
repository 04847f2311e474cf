// SPDX-License-Identifier: Apache-2.0
#include "net/trust.h"

#include <cstdlib>
#include <memory>
#include <string_view>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

namespace cloister::net {
namespace {

namespace ssl = boost::asio::ssl;

std::string variable(const char* name) {
  const char* text = ::getenv(name);
  return text == nullptr ? std::string() : std::string(text);
}

// The oldest error of this thread; drops the others.
std::unexpected<Error> unusable(std::string_view name, const std::string& file) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* text = code == 0 ? nullptr : ERR_reason_error_string(code);
  return fail(Code::kInvalid, std::string(name) + ": " + file + ": " +
                                  (text == nullptr ? "it cannot be used" : text));
}

ssl::context verifying() {
  ssl::context tls(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(tls.native_handle(), TLS1_2_VERSION);
  tls.set_verify_mode(ssl::verify_peer);
  return tls;
}

Result<> accept(SSL_CTX* context, const Trust& trust) {
  if (!trust.pinned.empty()) {
    // Only the first certificate of the file: the others are issuers, who have issued more.
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> file(
        BIO_new_file(trust.pinned.c_str(), "r"), &BIO_free_all);
    const std::unique_ptr<X509, decltype(&X509_free)> own(
        file ? PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr) : nullptr, &X509_free);
    if (!own || X509_STORE_add_cert(SSL_CTX_get_cert_store(context), own.get()) != 1) {
      return unusable("the server's certificate", trust.pinned);
    }
    X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
  } else if (!trust.ca_file.empty()) {
    if (SSL_CTX_load_verify_file(context, trust.ca_file.c_str()) != 1) {
      return unusable(trust.ca_name, trust.ca_file);
    }
  } else {
    SSL_CTX_set_default_verify_paths(context);
  }
  return {};
}

Result<> present(SSL_CTX* context, const Trust& trust) {
  if (trust.certificate.empty()) return {};
  // Nobody is asked for a password: a program may be the caller.
  SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  if (SSL_CTX_use_certificate_chain_file(context, trust.certificate.c_str()) != 1) {
    return unusable("CLOISTER_CERT", trust.certificate);
  }
  const std::string& key = trust.key.empty() ? trust.certificate : trust.key;
  if (SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return unusable("CLOISTER_CERT_KEY", key);
  }
  return {};
}

}  // namespace

Trust Trust::fromEnvironment() {
  return {.ca_file = variable("CLOISTER_CA"),
          .pinned = {},
          .certificate = variable("CLOISTER_CERT"),
          .key = variable("CLOISTER_CERT_KEY"),
          .ca_name = "CLOISTER_CA"};
}

Result<ssl::context> clientTls(const Trust& trust) {
  ssl::context tls = verifying();
  ERR_clear_error();
  TRY(accept(tls.native_handle(), trust));
  TRY(present(tls.native_handle(), trust));
  return tls;
}

Result<ssl::context> clientTls(const std::string& ca_file, const std::string& key) {
  ssl::context tls = verifying();
  boost::system::error_code error;
  if (ca_file.empty()) {
    tls.set_default_verify_paths(error);
  } else {
    tls.load_verify_file(ca_file, error);
  }
  if (error) return fail(Code::kInvalid, key + ": " + error.message(), key);
  return tls;
}

}  // namespace cloister::net
