// SPDX-License-Identifier: Apache-2.0
#include "auth/jwks.h"

#include <algorithm>
#include <optional>
#include <set>

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

namespace cloister::auth {
namespace {

namespace json = base::json;

constexpr size_t kCoordinate = 32;  // of P-256, and an Ed25519 key
constexpr int kMinRsaBits = 2048;
constexpr int kMaxRsaBits = 8192;
constexpr int kMaxExponentBits = 33;
constexpr size_t kMaxSetBytes = size_t{512} << 10;

struct Free {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(EVP_PKEY_CTX* p) const { EVP_PKEY_CTX_free(p); }
  void operator()(EVP_MD_CTX* p) const { EVP_MD_CTX_free(p); }
  void operator()(BIGNUM* p) const { BN_free(p); }
  void operator()(OSSL_PARAM_BLD* p) const { OSSL_PARAM_BLD_free(p); }
  void operator()(OSSL_PARAM* p) const { OSSL_PARAM_free(p); }
  void operator()(ECDSA_SIG* p) const { ECDSA_SIG_free(p); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

std::unexpected<Error> bad(std::string_view why) {
  ERR_clear_error();
  return fail(Code::kInvalid, "reading a public key: " + std::string(why));
}

Result<std::string> textOf(const json::object& from, std::string_view name) {
  const json::value* value = from.if_contains(name);
  if (value == nullptr || !value->is_string()) return bad("it has no " + std::string(name));
  return std::string(value->get_string());
}

Result<std::string> bytesOf(const json::object& from, std::string_view name) {
  return fromBase64Url(TRY(textOf(from, name)));
}

const unsigned char* octets(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

Result<Owned<EVP_PKEY>> build(const char* type, OSSL_PARAM_BLD* builder) {
  const Owned<OSSL_PARAM> params(OSSL_PARAM_BLD_to_param(builder));
  const Owned<EVP_PKEY_CTX> context(EVP_PKEY_CTX_new_from_name(nullptr, type, nullptr));
  EVP_PKEY* key = nullptr;
  if (!params || !context || EVP_PKEY_fromdata_init(context.get()) != 1 ||
      EVP_PKEY_fromdata(context.get(), &key, EVP_PKEY_PUBLIC_KEY, params.get()) != 1) {
    return bad("not a valid key");
  }
  return Owned<EVP_PKEY>(key);
}

Result<Owned<EVP_PKEY>> rsaKey(const json::object& jwk) {
  const std::string n = TRY(bytesOf(jwk, "n"));
  const std::string e = TRY(bytesOf(jwk, "e"));
  if (n.size() > kMaxRsaBits / 8 || e.size() > 8) return bad("too large");
  const Owned<BIGNUM> modulus(BN_bin2bn(octets(n), static_cast<int>(n.size()), nullptr));
  const Owned<BIGNUM> exponent(BN_bin2bn(octets(e), static_cast<int>(e.size()), nullptr));
  if (!modulus || !exponent) return bad("out of memory");
  const int bits = BN_num_bits(modulus.get());
  // An even exponent or modulus, or an exponent of 1, is no key; a long exponent is work for us.
  if (bits < kMinRsaBits || !BN_is_odd(modulus.get()) || !BN_is_odd(exponent.get()) ||
      BN_is_one(exponent.get()) || BN_num_bits(exponent.get()) > kMaxExponentBits) {
    return bad("weak or not an RSA key");
  }
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  if (!builder ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_N, modulus.get()) != 1 ||
      OSSL_PARAM_BLD_push_BN(builder.get(), OSSL_PKEY_PARAM_RSA_E, exponent.get()) != 1) {
    return bad("out of memory");
  }
  return build("RSA", builder.get());
}

Result<Owned<EVP_PKEY>> ecKey(const json::object& jwk) {
  if (TRY(textOf(jwk, "crv")) != "P-256") return bad("another curve");
  const std::string x = TRY(bytesOf(jwk, "x"));
  const std::string y = TRY(bytesOf(jwk, "y"));
  if (x.size() != kCoordinate || y.size() != kCoordinate) return bad("not a point");
  const std::string point = "\x04" + x + y;
  const Owned<OSSL_PARAM_BLD> builder(OSSL_PARAM_BLD_new());
  if (!builder ||
      OSSL_PARAM_BLD_push_utf8_string(builder.get(), OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0) !=
          1 ||
      OSSL_PARAM_BLD_push_octet_string(builder.get(), OSSL_PKEY_PARAM_PUB_KEY, point.data(),
                                       point.size()) != 1) {
    return bad("out of memory");
  }
  Owned<EVP_PKEY> key = TRY(build("EC", builder.get()));
  const Owned<EVP_PKEY_CTX> check(EVP_PKEY_CTX_new_from_pkey(nullptr, key.get(), nullptr));
  if (!check || EVP_PKEY_public_check(check.get()) != 1) return bad("not a point of the curve");
  return key;
}

Result<Owned<EVP_PKEY>> edKey(const json::object& jwk) {
  if (TRY(textOf(jwk, "crv")) != "Ed25519") return bad("another curve");
  const std::string x = TRY(bytesOf(jwk, "x"));
  if (x.size() != kCoordinate) return bad("not a key");
  Owned<EVP_PKEY> key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, octets(x), x.size()));
  if (!key) return bad("not a key");
  return key;
}

// Converts two numbers (RFC 7518 §3.4) to OpenSSL's DER; "" if malformed.
std::string derSignature(std::string_view raw) {
  if (raw.size() != 2 * kCoordinate) return {};
  const Owned<ECDSA_SIG> signature(ECDSA_SIG_new());
  BIGNUM* r = BN_bin2bn(octets(raw), kCoordinate, nullptr);
  BIGNUM* s = BN_bin2bn(octets(raw.substr(kCoordinate)), kCoordinate, nullptr);
  if (!signature || r == nullptr || s == nullptr || ECDSA_SIG_set0(signature.get(), r, s) != 1) {
    BN_free(r);
    BN_free(s);
    return {};
  }
  unsigned char* der = nullptr;
  const int size = i2d_ECDSA_SIG(signature.get(), &der);
  std::string out;
  if (size > 0) out.assign(reinterpret_cast<const char*>(der), static_cast<size_t>(size));
  OPENSSL_free(der);
  return out;
}

// RFC 7517 §4.2 and §4.3.
bool isForSignatures(const json::object& jwk) {
  if (const json::value* use = jwk.if_contains("use")) {
    if (!use->is_string() || use->get_string() != "sig") return false;
  }
  const json::value* operations = jwk.if_contains("key_ops");
  if (operations == nullptr) return true;
  return operations->is_array() &&
         std::ranges::find(operations->get_array(), "verify") != operations->get_array().end();
}

}  // namespace

struct PublicKey::State {
  Owned<EVP_PKEY> key;
};

PublicKey::PublicKey(Algorithm algorithm, std::unique_ptr<State> state)
    : algorithm_(algorithm), state_(std::move(state)) {}
PublicKey::PublicKey(PublicKey&&) noexcept = default;
PublicKey& PublicKey::operator=(PublicKey&&) noexcept = default;
PublicKey::~PublicKey() = default;

Result<PublicKey> PublicKey::fromJwk(const json::object& jwk) {
  const std::string type = TRY(textOf(jwk, "kty"));
  std::optional<Algorithm> algorithm;
  Owned<EVP_PKEY> key;
  if (type == "RSA") {
    algorithm = Algorithm::kRs256;
    key = TRY(rsaKey(jwk));
  } else if (type == "EC") {
    algorithm = Algorithm::kEs256;
    key = TRY(ecKey(jwk));
  } else if (type == "OKP") {
    algorithm = Algorithm::kEdDsa;
    key = TRY(edKey(jwk));
  } else {
    return bad("of a type that is not taken");
  }
  if (jwk.contains("alg") && algorithmFromName(TRY(textOf(jwk, "alg"))) != algorithm) {
    return bad("for another algorithm");
  }
  return PublicKey(*algorithm, std::make_unique<State>(State{std::move(key)}));
}

bool PublicKey::verify(std::string_view text, std::string_view signature) const {
  std::string der;
  if (algorithm_ == Algorithm::kEs256) {
    der = derSignature(signature);
    if (der.empty()) return false;
    signature = der;
  }
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const EVP_MD* digest = algorithm_ == Algorithm::kEdDsa ? nullptr : EVP_sha256();
  const bool good =
      context &&
      EVP_DigestVerifyInit(context.get(), nullptr, digest, nullptr, state_->key.get()) == 1 &&
      EVP_DigestVerify(context.get(), octets(signature), signature.size(), octets(text),
                       text.size()) == 1;
  ERR_clear_error();
  return good;
}

Result<KeySet> parseKeySet(std::string_view text) {
  const json::value value =
      TRY(base::parseJson(text, {.max_bytes = kMaxSetBytes, .max_depth = 8, .max_values = 10'000}));
  const json::value* keys = value.is_object() ? value.get_object().if_contains("keys") : nullptr;
  if (keys == nullptr || !keys->is_array() || keys->get_array().size() > kMaxKeys) {
    return fail(Code::kInvalid, "reading the provider's keys: not a key set of at most 100 keys");
  }
  KeySet set;
  std::set<std::string> seen;
  for (const json::value& item : keys->get_array()) {
    if (!item.is_object() || !isForSignatures(item.get_object())) continue;
    const auto kid = textOf(item.get_object(), "kid");
    if (!kid || kid->empty() || kid->size() > kMaxKid) continue;
    if (!seen.insert(*kid).second) {
      set.erase(*kid);
      continue;
    }
    auto key = PublicKey::fromJwk(item.get_object());
    if (key) set.emplace(*kid, *std::move(key));
  }
  return set;
}

}  // namespace cloister::auth
