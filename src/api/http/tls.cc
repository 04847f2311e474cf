// SPDX-License-Identifier: Apache-2.0
#include "api/http/tls.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include <openssl/x509v3.h>

#include "base/crypto.h"
#include "base/log.h"

namespace cloister::api {
namespace {

namespace ssl = boost::asio::ssl;
using boost::system::error_code;

constexpr Millis kLookAgain{1'000};
constexpr int kMaxDepth = 5;        // of a client's chain
constexpr size_t kMaxNames = 64;    // the most names read of a certificate
constexpr size_t kMaxName = 2'048;  // bytes of a name
constexpr int64_t kMicros = 1'000'000;

std::unexpected<Error> wrong(std::string_view key, const std::string& file, std::string_view why) {
  return fail(Code::kInvalid, std::string(key) + ": " + file + ": " + std::string(why),
              std::string(key));
}

Result<> readOwn(const model::Config::Tls& config, ssl::context& context) {
  error_code error;
  // A service cannot enter a password: a key with a password is refused.
  const auto none = [](size_t, ssl::context::password_purpose) { return std::string(); };
  context.set_password_callback(none, error);
  context.use_certificate_chain_file(config.certificate, error);
  if (error) return wrong("tls.certificate", config.certificate, error.message());
  context.use_private_key_file(config.key, ssl::context::pem, error);
  if (error) return wrong("tls.key", config.key, error.message());
  return {};
}

Result<> readClients(const model::Config::Tls& config, ssl::context& context) {
  if (config.client_ca.empty()) return {};
  error_code error;
  context.load_verify_file(config.client_ca, error);
  if (error) return wrong("tls.client_ca", config.client_ca, error.message());
  // Clients are told whose certificates are taken (RFC 8446 §4.2.4).
  SSL_CTX_set_client_CA_list(context.native_handle(),
                             SSL_load_client_CA_file(config.client_ca.c_str()));
  context.set_verify_mode(ssl::verify_peer);
  X509_VERIFY_PARAM* rules = SSL_CTX_get0_param(context.native_handle());
  X509_VERIFY_PARAM_set_depth(rules, kMaxDepth);
  X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_CLIENT);
  if (config.client_crl.empty()) return {};
  X509_LOOKUP* lookup =
      X509_STORE_add_lookup(SSL_CTX_get_cert_store(context.native_handle()), X509_LOOKUP_file());
  if (lookup == nullptr ||
      X509_load_crl_file(lookup, config.client_crl.c_str(), X509_FILETYPE_PEM) < 1) {
    return wrong("tls.client_crl", config.client_crl, "it has no list of revoked certificates");
  }
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  return {};
}

std::array<int64_t, 3> stampOf(const std::string& file) {
  struct stat status{};
  if (file.empty() || ::stat(file.c_str(), &status) != 0) return {};
  return {static_cast<int64_t>(status.st_ino), status.st_size,
          status.st_mtim.tv_sec * kMicros * 1'000 + status.st_mtim.tv_nsec};
}

int64_t microsOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (time == nullptr || ASN1_TIME_to_tm(time, &parts) != 1) return 0;
  return static_cast<int64_t>(::timegm(&parts)) * kMicros;
}

std::string textOf(const ASN1_IA5STRING* text) {
  const auto size = static_cast<size_t>(std::max(0, ASN1_STRING_length(text)));
  std::string bytes(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)), size);
  // A zero or a control character in a name is an attempt to fake another name.
  const bool odd = std::ranges::any_of(bytes, [](char c) { return c <= ' ' || c > '~'; });
  return odd || size > kMaxName ? std::string() : bytes;
}

std::vector<std::string> namesOf(const X509* certificate) {
  struct Free {
    void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
  };
  const std::unique_ptr<GENERAL_NAMES, Free> all(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  std::vector<std::string> names;
  for (int at = 0; all && at < sk_GENERAL_NAME_num(all.get()) && names.size() < kMaxNames; ++at) {
    int type = 0;
    const void* value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(all.get(), at), &type);
    const std::string_view kind = type == GEN_URI     ? "uri:"
                                  : type == GEN_DNS   ? "dns:"
                                  : type == GEN_EMAIL ? "email:"
                                                      : "";
    if (kind.empty()) continue;
    const std::string name = textOf(static_cast<const ASN1_IA5STRING*>(value));
    if (!name.empty()) names.push_back(std::string(kind) + name);
  }
  return names;
}

}  // namespace

Result<std::unique_ptr<ServerTls>> ServerTls::open(const model::Config::Tls& config) {
  if (config.certificate.empty()) {
    for (const auto& [key, value] :
         {std::pair("tls.key", &config.key), std::pair("tls.client_ca", &config.client_ca),
          std::pair("tls.client_crl", &config.client_crl)}) {
      if (!value->empty())
        return fail(Code::kInvalid, std::string(key) + ": needs tls.certificate", key);
    }
    return nullptr;
  }
  if (config.key.empty()) {
    return fail(Code::kInvalid, "tls.key: is required with tls.certificate", "tls.key");
  }
  if (!config.client_crl.empty() && config.client_ca.empty()) {
    return fail(Code::kInvalid, "tls.client_crl: needs tls.client_ca", "tls.client_crl");
  }
  std::unique_ptr<ServerTls> tls(new ServerTls(config));
  TRY(tls->read());
  return tls;
}

std::array<ServerTls::Stamp, 4> ServerTls::stamps() const {
  return {stampOf(config_.certificate), stampOf(config_.key), stampOf(config_.client_ca),
          stampOf(config_.client_crl)};
}

Result<> ServerTls::read() {
  seen_ = stamps();
  looked_ = base::monotonicNow();
  auto fresh = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* raw = fresh->native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_2_VERSION);
  SSL_CTX_set_options(raw, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                               SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_NO_TICKET);
  // A resumed session would bring a certificate that may be revoked by now.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  TRY(readOwn(config_, *fresh));
  TRY(readClients(config_, *fresh));
  context_ = std::move(fresh);
  return {};
}

std::shared_ptr<ssl::context> ServerTls::context() {
  const base::Monotonic now = base::monotonicNow();
  if (now - looked_ < kLookAgain) return context_;
  looked_ = now;
  if (stamps() == seen_) return context_;
  if (const auto fresh = read(); fresh) {
    base::log(base::Level::kInfo, "certificates read again", {{"file", config_.certificate}});
  } else {
    base::log(base::Level::kError, "certificates not read again",
              {{"error", fresh.error().message}});
  }
  return context_;
}

int64_t ServerTls::expires() {
  const X509* own = SSL_CTX_get0_certificate(context()->native_handle());
  return own == nullptr ? 0 : microsOf(X509_get0_notAfter(own)) / kMicros;
}

std::shared_ptr<const auth::ClientCertificate> shownCertificate(SSL* connection) {
  X509* shown = SSL_get0_peer_certificate(connection);
  if (shown == nullptr || SSL_get_verify_result(connection) != X509_V_OK) return nullptr;
  uint8_t* bytes = nullptr;
  const int size = i2d_X509(shown, &bytes);
  if (size <= 0) return nullptr;
  auto certificate = std::make_shared<auth::ClientCertificate>();
  certificate->sha256 =
      base::sha256Hex({reinterpret_cast<char*>(bytes), static_cast<size_t>(size)});
  OPENSSL_free(bytes);
  certificate->names = namesOf(shown);
  certificate->not_after = microsOf(X509_get0_notAfter(shown));
  return certificate;
}

}  // namespace cloister::api
