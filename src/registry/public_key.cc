// SPDX-License-Identifier: Apache-2.0
#include "registry/public_key.h"

#include <algorithm>
#include <utility>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "base/crypto.h"
#include "base/file.h"

namespace cloister::registry {
namespace {

constexpr size_t kMostFile = size_t{64} << 10;
constexpr size_t kMostSignature = 256;  // of both kinds

struct Free {
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
  void operator()(unsigned char* bytes) const { OPENSSL_free(bytes); }
};
template <class T>
using Owned = std::unique_ptr<T, Free>;

bool isP256(const EVP_PKEY* key) {
  char group[64] = {};
  return EVP_PKEY_is_a(key, "EC") == 1 &&
         EVP_PKEY_get_group_name(key, group, sizeof group, nullptr) == 1 &&
         std::string_view(group) == "prime256v1";
}

const unsigned char* bytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

struct PublicKey::State {
  Owned<EVP_PKEY> key;
  bool ed25519 = false;
};

Result<PublicKey> PublicKey::parse(std::string_view pem) {
  if (pem.contains("PRIVATE KEY-----")) {
    return fail(Code::kInvalid, "is a private key; give the public key (cosign.pub)");
  }
  const Owned<BIO> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(std::min(pem.size(), kMostFile))));
  State state{.key = Owned<EVP_PKEY>(bio ? PEM_read_bio_PUBKEY(bio.get(), nullptr, nullptr, nullptr)
                                         : nullptr)};
  ERR_clear_error();
  if (!state.key) return fail(Code::kInvalid, "has no public key in PEM");
  state.ed25519 = EVP_PKEY_is_a(state.key.get(), "ED25519") == 1;
  if (!state.ed25519 && !isP256(state.key.get())) {
    return fail(Code::kInvalid, "must be a key of ECDSA on P-256 or of Ed25519");
  }
  unsigned char* der = nullptr;
  const int size = i2d_PUBKEY(state.key.get(), &der);
  const Owned<unsigned char> owned(der);
  if (size <= 0) return fail(Code::kInvalid, "cannot be encoded");
  PublicKey out;
  out.id_ =
      "sha256:" + base::sha256Hex({reinterpret_cast<const char*>(der), static_cast<size_t>(size)});
  out.state_ = std::make_shared<const State>(std::move(state));
  return out;
}

bool PublicKey::verify(std::string_view message, std::string_view signature) const {
  if (signature.empty() || signature.size() > kMostSignature) return false;
  const Owned<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const EVP_MD* hash = state_->ed25519 ? nullptr : EVP_sha256();
  const bool good =
      context &&
      EVP_DigestVerifyInit(context.get(), nullptr, hash, nullptr, state_->key.get()) == 1 &&
      EVP_DigestVerify(context.get(), bytesOf(signature), signature.size(), bytesOf(message),
                       message.size()) == 1;
  ERR_clear_error();
  return good;
}

Result<std::vector<PublicKey>> loadKeys(const std::vector<std::string>& files) {
  std::vector<PublicKey> keys;
  for (const std::string& file : files) {
    const auto wrong = [&](Error error) {
      return std::unexpected(std::move(error).within("images.keys: " + file));
    };
    const auto pem = base::readFile(file, kMostFile);
    if (!pem) return wrong(pem.error());
    auto key = PublicKey::parse(*pem);
    if (!key) return wrong(key.error());
    keys.push_back(*std::move(key));
  }
  return keys;
}

const PublicKey* verifier(const std::vector<PublicKey>& keys, std::string_view message,
                          std::string_view signature) {
  const auto found = std::ranges::find_if(
      keys, [&](const PublicKey& key) { return key.verify(message, signature); });
  return found == keys.end() ? nullptr : &*found;
}

}  // namespace cloister::registry
