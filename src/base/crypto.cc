// SPDX-License-Identifier: Apache-2.0
#include "base/crypto.h"

#include <sys/stat.h>

#include <cstdlib>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <sodium.h>

#include "base/file.h"

namespace cloister::base {
namespace {

template <auto kFree>
struct Free {
  template <class T>
  void operator()(T* p) const {
    kFree(p);
  }
};
using Digest = std::unique_ptr<EVP_MD_CTX, Free<EVP_MD_CTX_free>>;

const uint8_t* bytesOf(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

std::string_view textOf(const std::array<uint8_t, 32>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// These fail here only when memory is out, and then nothing else works either.
void require(bool ok) {
  if (!ok) std::abort();
}

// libsodium needs initialization before any other call (sodium_init(3)).
void requireSodium() {
  static const bool ready = ::sodium_init() >= 0;
  require(ready);
}

// Fetched once: otherwise OpenSSL 3 searches for each digest, which takes longer than a short
// digest.
const EVP_MD* sha256() {
  static const EVP_MD* const digest = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  require(digest != nullptr);
  return digest;
}

std::string finishHex(EVP_MD_CTX* digest) {
  uint8_t out[32];
  require(EVP_DigestFinal_ex(digest, out, nullptr) == 1);
  return toHex({reinterpret_cast<const char*>(out), sizeof out});
}

}  // namespace

struct Sha256::State {
  Digest digest{EVP_MD_CTX_new()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  require(EVP_DigestInit_ex(state_->digest.get(), sha256(), nullptr) == 1);
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(std::string_view bytes) {
  require(EVP_DigestUpdate(state_->digest.get(), bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() const {
  const Digest copy(EVP_MD_CTX_new());
  require(EVP_MD_CTX_copy_ex(copy.get(), state_->digest.get()) == 1);
  return finishHex(copy.get());
}

std::string sha256Hex(std::string_view bytes) {
  uint8_t out[32];
  require(EVP_Digest(bytes.data(), bytes.size(), out, nullptr, sha256(), nullptr) == 1);
  return toHex({reinterpret_cast<const char*>(out), sizeof out});
}

std::string md5Hex(std::string_view bytes) {
  static const EVP_MD* const digest = EVP_MD_fetch(nullptr, "MD5", nullptr);
  if (digest == nullptr) return {};
  uint8_t out[16];
  require(EVP_Digest(bytes.data(), bytes.size(), out, nullptr, digest, nullptr) == 1);
  return toHex({reinterpret_cast<const char*>(out), sizeof out});
}

std::string toHex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

std::string toBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock adds a NUL
  const int n = EVP_EncodeBlock(reinterpret_cast<uint8_t*>(text.data()), bytesOf(bytes),
                                static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(n));
  return text;
}

namespace {

// The value of a base64 character; 64 for '=', 255 for any other character.
uint8_t base64Value(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<uint8_t>(c - 'A');
  if (c >= 'a' && c <= 'z') return static_cast<uint8_t>(c - 'a' + 26);
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0' + 52);
  if (c == '+') return 62;
  if (c == '/') return 63;
  return c == '=' ? 64 : 255;
}

}  // namespace

Result<std::string> fromBase64(std::string_view text) {
  const auto bad = [] { return fail(Code::kInvalid, "decoding base64: not RFC 4648 base64"); };
  if (text.size() % 4 != 0) return bad();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    uint8_t v[4];
    for (size_t k = 0; k < 4; ++k) {
      v[k] = base64Value(text[i + k]);
      const bool padding = v[k] == 64 && last && (k == 3 || (k == 2 && text[i + 3] == '='));
      if (v[k] > 63 && !padding) return bad();
    }
    const size_t given = v[2] == 64 ? 1 : v[3] == 64 ? 2 : 3;
    const uint32_t word = uint32_t{v[0]} << 18 | uint32_t{v[1]} << 12 | uint32_t{v[2] & 63u} << 6 |
                          uint32_t{v[3] & 63u};
    if ((word & (0xffffffu >> (8 * given)) & (given == 3 ? 0u : ~0u)) != 0) return bad();
    for (size_t k = 0; k < given; ++k)
      bytes += static_cast<char>(word >> (16 - 8 * k));
  }
  return bytes;
}

bool equalSecret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Result<VerifyKey> VerifyKey::fromBase64(std::string_view text) {
  const std::string raw = TRY(base::fromBase64(text));
  if (raw.size() != 32) return fail(Code::kInvalid, "reading an Ed25519 public key: not 32 bytes");
  VerifyKey key;
  std::copy(raw.begin(), raw.end(), key.bytes_.begin());
  return key;
}

bool VerifyKey::verify(std::string_view message, std::string_view signature) const {
  requireSodium();
  return signature.size() == crypto_sign_ed25519_BYTES &&
         crypto_sign_ed25519_verify_detached(bytesOf(signature), bytesOf(message), message.size(),
                                             bytes_.data()) == 0;
}

std::string VerifyKey::base64() const {
  return toBase64(textOf(bytes_));
}

std::string VerifyKey::id() const {
  return sha256Hex(textOf(bytes_)).substr(0, 16);
}

// The seed followed by the public key (crypto_sign(3)).
struct SigningKey::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { OPENSSL_cleanse(key.data(), key.size()); }

  std::array<uint8_t, crypto_sign_ed25519_SECRETKEYBYTES> key{};
};

SigningKey::SigningKey(std::string_view seed) : state_(std::make_unique<State>()) {
  requireSodium();
  require(seed.size() == crypto_sign_ed25519_SEEDBYTES);
  std::array<uint8_t, crypto_sign_ed25519_PUBLICKEYBYTES> shown{};
  require(crypto_sign_ed25519_seed_keypair(shown.data(), state_->key.data(), bytesOf(seed)) == 0);
}

SigningKey SigningKey::generate() {
  std::array<uint8_t, 32> seed{};
  require(RAND_priv_bytes(seed.data(), static_cast<int>(seed.size())) == 1);
  SigningKey key(textOf(seed));
  OPENSSL_cleanse(seed.data(), seed.size());
  return key;
}

Result<SigningKey> SigningKey::fromBase64(std::string_view text) {
  std::string raw = TRY(base::fromBase64(text));
  if (raw.size() != 32) return fail(Code::kInvalid, "reading an Ed25519 private key: not 32 bytes");
  SigningKey key(raw);
  OPENSSL_cleanse(raw.data(), raw.size());
  return key;
}

Result<SigningKey> SigningKey::loadOrCreate(const std::string& path) {
  if (Result<std::string> text = readFile(path, 256)) {
    while (text->ends_with('\n'))
      text->pop_back();
    Result<SigningKey> key = fromBase64(*text);
    if (!key) return std::unexpected(std::move(key).error().within("reading " + path));
    return key;
  } else if (text.error().code != Code::kNotFound) {
    return std::unexpected(std::move(text).error());
  }
  SigningKey key = generate();
  TRY(writeFileAtomic(path, key.base64() + "\n", 0600));
  return key;
}

SigningKey::SigningKey(SigningKey&&) noexcept = default;
SigningKey& SigningKey::operator=(SigningKey&&) noexcept = default;
SigningKey::~SigningKey() = default;

std::string SigningKey::sign(std::string_view message) const {
  std::string signature(crypto_sign_ed25519_BYTES, '\0');
  require(crypto_sign_ed25519_detached(reinterpret_cast<uint8_t*>(signature.data()), nullptr,
                                       bytesOf(message), message.size(), state_->key.data()) == 0);
  return signature;
}

VerifyKey SigningKey::verifyKey() const {
  VerifyKey key;
  std::copy_n(state_->key.begin() + crypto_sign_ed25519_SEEDBYTES, key.bytes_.size(),
              key.bytes_.begin());
  return key;
}

std::string SigningKey::base64() const {
  return toBase64(
      {reinterpret_cast<const char*>(state_->key.data()), crypto_sign_ed25519_SEEDBYTES});
}

}  // namespace cloister::base
