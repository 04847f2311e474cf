// SPDX-License-Identifier: Apache-2.0
#include "egress/tls/authority.h"

#include <algorithm>
#include <set>
#include <utility>

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "base/id.h"
#include "model/network.h"

namespace cloister::egress {
namespace {

constexpr std::time_t kHour = 3600;
constexpr std::time_t kEarly = kHour;  // clocks inside of virtual machines differ
constexpr std::time_t kOwnLife = 30 * 24 * kHour;
constexpr std::time_t kLeafLife = 24 * kHour;
constexpr size_t kMostCommonName = 64;  // RFC 5280, ub-common-name

std::unexpected<Error> failed(std::string_view doing) {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* cause = code == 0 ? nullptr : ERR_reason_error_string(code);
  return fail(Code::kInternal, std::string(doing) + ": " + (cause == nullptr ? "OpenSSL" : cause));
}

EVP_PKEY* newKey() {
  return EVP_EC_gen("P-256");
}

bool setSerial(X509* certificate) {
  constexpr int kBits = 127;
  const std::unique_ptr<BIGNUM, decltype(&BN_free)> number(BN_new(), &BN_free);
  return number && BN_rand(number.get(), kBits, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool setName(X509_NAME* name, const std::string& common) {
  return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                                    reinterpret_cast<const unsigned char*>(common.data()),
                                    static_cast<int>(common.size()), -1, 0) == 1;
}

bool setLife(X509* certificate, std::time_t from, std::time_t until) {
  return ASN1_TIME_set(X509_getm_notBefore(certificate), from) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), until) != nullptr;
}

// `text` in the form of x509v3_config(5).
bool extend(X509* certificate, X509* issuer, int kind, const std::string& text) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, kind, text.c_str());
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

// The names below a pattern's host and the host itself: the constraints of RFC 5280 know no more.
// No leaf has an address.
std::string constraintsFor(const std::vector<std::string>& patterns) {
  std::string text =
      "critical,excluded;IP:0.0.0.0/0.0.0.0,excluded;IP:0:0:0:0:0:0:0:0/0:0:0:0:0:0:0:0";
  if (std::ranges::find(patterns, model::kAnyName) != patterns.end()) return text;
  std::set<std::string, std::less<>> hosts;
  for (const std::string_view pattern : patterns)
    hosts.emplace(pattern.starts_with("*.") ? pattern.substr(2) : pattern);
  for (const std::string& host : hosts)
    text += ",permitted;DNS:" + host;
  return text;
}

int chooseProtocol(SSL* session, const unsigned char** chosen, unsigned char* chosen_size,
                   const unsigned char* offered, unsigned size, void*) {
  const auto* protocol = static_cast<const std::string*>(SSL_get_app_data(session));
  if (protocol == nullptr || protocol->empty()) return SSL_TLSEXT_ERR_NOACK;
  for (unsigned at = 0; at < size; at += 1U + offered[at]) {
    const std::string_view each(reinterpret_cast<const char*>(offered + at + 1), offered[at]);
    if (each != *protocol) continue;
    *chosen = offered + at + 1;
    *chosen_size = offered[at];
    return SSL_TLSEXT_ERR_OK;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

}  // namespace

Result<std::shared_ptr<Authority>> Authority::make(std::vector<std::string> patterns) {
  std::shared_ptr<Authority> made(new Authority());
  made->patterns_ = std::move(patterns);
  ERR_clear_error();
  made->key_.reset(newKey());
  made->leaf_key_.reset(newKey());
  if (!made->key_ || !made->leaf_key_) return failed("making a key of a sandbox's authority");
  TRY(made->issueOwn());
  TRY(made->makeContext());
  return made;
}

Result<> Authority::issueOwn() {
  own_.reset(X509_new());
  const std::time_t now = std::time(nullptr);
  ends_ = now + kOwnLife;
  X509* own = own_.get();
  const bool made = own != nullptr && X509_set_version(own, X509_VERSION_3) == 1 &&
                    setSerial(own) &&
                    setName(X509_get_subject_name(own), "Cloister sandbox " + base::randomHex(8)) &&
                    X509_set_issuer_name(own, X509_get_subject_name(own)) == 1 &&
                    setLife(own, now - kEarly, ends_) && X509_set_pubkey(own, key_.get()) == 1 &&
                    extend(own, own, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
                    extend(own, own, NID_key_usage, "critical,keyCertSign") &&
                    extend(own, own, NID_subject_key_identifier, "hash") &&
                    extend(own, own, NID_name_constraints, constraintsFor(patterns_)) &&
                    X509_sign(own, key_.get(), EVP_sha256()) != 0;
  if (!made) return failed("making the certificate of a sandbox's authority");
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> text(BIO_new(BIO_s_mem()), &BIO_free_all);
  if (!text || PEM_write_bio_X509(text.get(), own) != 1) return failed("writing a certificate");
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  pem_.assign(bytes, static_cast<size_t>(size));
  return {};
}

Result<> Authority::makeContext() {
  context_.reset(SSL_CTX_new(TLS_server_method()));
  SSL_CTX* context = context_.get();
  if (context == nullptr || SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
      SSL_CTX_set_num_tickets(context, 0) != 1) {
    return failed("preparing TLS for a sandbox");
  }
  SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_alpn_select_cb(context, chooseProtocol, nullptr);
  return {};
}

bool Authority::covers(std::string_view name) const {
  return std::ranges::any_of(patterns_, [&](const std::string& pattern) {
    return pattern == model::kAnyName || model::coversName(pattern, name);
  });
}

Result<Authority::Leaf> Authority::issue(const std::string& name) const {
  const std::time_t now = std::time(nullptr);
  const std::time_t until = std::min(now + kLeafLife, ends_);
  Leaf leaf{.certificate = Certificate(X509_new()), .renew = until - kHour};
  X509* made = leaf.certificate.get();
  const bool good =
      made != nullptr && X509_set_version(made, X509_VERSION_3) == 1 && setSerial(made) &&
      setName(X509_get_subject_name(made), name.size() <= kMostCommonName ? name : "inspected") &&
      X509_set_issuer_name(made, X509_get_subject_name(own_.get())) == 1 &&
      setLife(made, now - kEarly, until) && X509_set_pubkey(made, leaf_key_.get()) == 1 &&
      extend(made, own_.get(), NID_basic_constraints, "critical,CA:FALSE") &&
      extend(made, own_.get(), NID_key_usage, "critical,digitalSignature") &&
      extend(made, own_.get(), NID_ext_key_usage, "serverAuth") &&
      extend(made, own_.get(), NID_authority_key_identifier, "keyid:always") &&
      extend(made, own_.get(), NID_subject_alt_name, "DNS:" + name) &&
      X509_sign(made, key_.get(), EVP_sha256()) != 0;
  if (!good) return failed("making a certificate for " + name);
  return leaf;
}

Result<> Authority::present(SSL* session, const std::string& name, const std::string& protocol) {
  if (!covers(name)) {
    return fail(Code::kDenied, "the sandbox's authority does not cover " + name);
  }
  auto known = leaves_.find(name);
  if (known == leaves_.end() || known->second.renew <= std::time(nullptr)) {
    Leaf leaf = TRY(issue(name));
    if (known == leaves_.end() && leaves_.size() >= kMostLeaves) leaves_.clear();
    known = leaves_.insert_or_assign(name, std::move(leaf)).first;
  }
  if (SSL_use_certificate(session, known->second.certificate.get()) != 1 ||
      SSL_use_PrivateKey(session, leaf_key_.get()) != 1) {
    return failed("presenting a certificate for " + name);
  }
  SSL_set_app_data(session, const_cast<std::string*>(&protocol));
  return {};
}

}  // namespace cloister::egress
