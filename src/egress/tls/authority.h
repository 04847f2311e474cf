// SPDX-License-Identifier: Apache-2.0
// Authority: issues the certificates with which cloister-egress meets the TLS clients of one
// sandbox, for the names that a rule inspects. Its private key exists in this process's memory
// alone, and ends with the sandbox's permit. Its certificate is constrained to the inspected names
// (RFC 5280 §4.2.1.10), so even its key would serve for no other name.
//
// One thread. A leaf costs about 0.1 ms when it is made, and is kept.
#pragma once

#include <cstddef>
#include <ctime>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/ssl.h>

#include "base/result.h"

namespace cloister::egress {

class Authority {
 public:
  static constexpr size_t kMostLeaves = 256;

  // `patterns`: the inspected names, of model::hostPattern(), or model::kAnyName.
  static Result<std::shared_ptr<Authority>> make(std::vector<std::string> patterns);

  // PEM, for the programs inside.
  [[nodiscard]] const std::string& certificate() const { return pem_; }
  // Whether a client that trusts certificate() accepts a leaf for the name.
  [[nodiscard]] bool covers(std::string_view name) const;

  // For the server's side of sessions: TLS 1.2 and 1.3, without resumption.
  [[nodiscard]] SSL_CTX* context() const { return context_.get(); }
  // Makes a session the server `name`, which agrees on `protocol` (ALPN; "": on none). The caller
  // keeps `protocol` as long as the session. kDenied: covers() says no.
  Result<> present(SSL* session, const std::string& name, const std::string& protocol);

  // Leaves in the cache.
  [[nodiscard]] size_t leaves() const { return leaves_.size(); }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;
  struct Leaf {
    Certificate certificate;
    std::time_t renew = 0;
  };

  Authority() = default;
  Result<> issueOwn();
  Result<> makeContext();
  Result<Leaf> issue(const std::string& name) const;

  std::vector<std::string> patterns_;
  Key key_;
  Key leaf_key_;  // of all leaves
  Certificate own_;
  std::time_t ends_ = 0;
  std::string pem_;
  std::unique_ptr<SSL_CTX, Free> context_;
  std::map<std::string, Leaf, std::less<>> leaves_;
};

}  // namespace cloister::egress
