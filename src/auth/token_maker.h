// SPDX-License-Identifier: Apache-2.0
// For tests: keys of every kind, their JWKs, and tokens signed by them.
#pragma once

#include <memory>
#include <string>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>

#include "auth/jwt.h"
#include "base/crypto.h"
#include "base/json.h"

namespace cloister::auth::testing {

inline std::string base64Url(std::string_view bytes) {
  std::string text = base::toBase64(bytes);
  while (text.ends_with('='))
    text.pop_back();
  for (char& c : text)
    c = c == '+' ? '-' : c == '/' ? '_' : c;
  return text;
}

class TestKey {
 public:
  TestKey(Algorithm algorithm, std::string kid, unsigned rsa_bits = 2048)
      : algorithm_(algorithm), kid_(std::move(kid)) {
    if (algorithm == Algorithm::kRs256)
      key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t{rsa_bits}));
    if (algorithm == Algorithm::kEs256)
      key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256"));
    if (algorithm == Algorithm::kEdDsa) key_.reset(EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519"));
  }

  [[nodiscard]] std::string name() const {
    constexpr std::string_view kNames[] = {"RS256", "ES256", "EdDSA"};
    return std::string(kNames[static_cast<size_t>(algorithm_)]);
  }

  [[nodiscard]] base::json::object jwk() const {
    base::json::object jwk{{"kid", kid_}, {"use", "sig"}};
    if (algorithm_ == Algorithm::kRs256) {
      jwk["kty"] = "RSA";
      jwk["n"] = number(OSSL_PKEY_PARAM_RSA_N);
      jwk["e"] = number(OSSL_PKEY_PARAM_RSA_E);
    } else if (algorithm_ == Algorithm::kEs256) {
      jwk["kty"] = "EC";
      jwk["crv"] = "P-256";
      jwk["x"] = number(OSSL_PKEY_PARAM_EC_PUB_X, 32);
      jwk["y"] = number(OSSL_PKEY_PARAM_EC_PUB_Y, 32);
    } else {
      unsigned char raw[32];
      size_t size = sizeof raw;
      EVP_PKEY_get_raw_public_key(key_.get(), raw, &size);
      jwk["kty"] = "OKP";
      jwk["crv"] = "Ed25519";
      jwk["x"] = base64Url({reinterpret_cast<const char*>(raw), size});
    }
    return jwk;
  }

  [[nodiscard]] std::string sign(std::string_view text) const {
    const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
    EVP_DigestSignInit(context.get(), nullptr,
                       algorithm_ == Algorithm::kEdDsa ? nullptr : EVP_sha256(), nullptr,
                       key_.get());
    unsigned char out[1024];
    size_t size = sizeof out;
    EVP_DigestSign(context.get(), out, &size, reinterpret_cast<const unsigned char*>(text.data()),
                   text.size());
    if (algorithm_ != Algorithm::kEs256) return {reinterpret_cast<const char*>(out), size};
    const unsigned char* der = out;
    const std::unique_ptr<ECDSA_SIG, Free> pair(
        d2i_ECDSA_SIG(nullptr, &der, static_cast<long>(size)));
    unsigned char raw[64];
    BN_bn2binpad(ECDSA_SIG_get0_r(pair.get()), raw, 32);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair.get()), raw + 32, 32);
    return {reinterpret_cast<const char*>(raw), sizeof raw};
  }

  // A token signed by this key; `header` adds or replaces header members.
  [[nodiscard]] std::string token(const base::json::object& claims,
                                  const base::json::object& header = {}) const {
    base::json::object whole{{"alg", name()}, {"kid", kid_}, {"typ", "JWT"}};
    for (const auto& [name, value] : header)
      whole[name] = value;
    const std::string text = base64Url(base::toJson(whole)) + "." + base64Url(base::toJson(claims));
    return text + "." + base64Url(sign(text));
  }

 private:
  struct Free {
    void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
    void operator()(EVP_MD_CTX* p) const { EVP_MD_CTX_free(p); }
    void operator()(BIGNUM* p) const { BN_free(p); }
    void operator()(ECDSA_SIG* p) const { ECDSA_SIG_free(p); }
  };

  [[nodiscard]] std::string number(const char* name, int size = 0) const {
    BIGNUM* got = nullptr;
    EVP_PKEY_get_bn_param(key_.get(), name, &got);
    const std::unique_ptr<BIGNUM, Free> value(got);
    std::string bytes(static_cast<size_t>(size > 0 ? size : BN_num_bytes(got)), '\0');
    BN_bn2binpad(got, reinterpret_cast<unsigned char*>(bytes.data()),
                 static_cast<int>(bytes.size()));
    return base64Url(bytes);
  }

  Algorithm algorithm_;
  std::string kid_;
  std::unique_ptr<EVP_PKEY, Free> key_;
};

inline std::string keySet(const base::json::array& keys) {
  return base::toJson(base::json::object{{"keys", keys}});
}

}  // namespace cloister::auth::testing
