// SPDX-License-Identifier: Apache-2.0
#include "base/crypto.h"

#include <sys/stat.h>

#include <cstdlib>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

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
using Key = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;

const uint8_t* bytesOf(std::string_view text) {
  return reinterpret_cast<const uint8_t*>(text.data());
}

std::string_view textOf(const std::array<uint8_t, 32>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// OpenSSL fails here only when memory is out, and then nothing else works either.
void require(bool ok) {
  if (!ok) std::abort();
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
  require(EVP_DigestInit_ex(state_->digest.get(), EVP_sha256(), nullptr) == 1);
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
  require(EVP_Digest(bytes.data(), bytes.size(), out, nullptr, EVP_sha256(), nullptr) == 1);
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

// The value of one base64 character; 64 for '=', 255 for anything else.
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
  const Key key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_.data(), bytes_.size()));
  if (!key || signature.size() != 64) return false;
  const Digest digest(EVP_MD_CTX_new());
  return EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(digest.get(), bytesOf(signature), signature.size(), bytesOf(message),
                          message.size()) == 1;
}

std::string VerifyKey::base64() const {
  return toBase64(textOf(bytes_));
}

std::string VerifyKey::id() const {
  return sha256Hex(textOf(bytes_)).substr(0, 16);
}

// Made once: what OpenSSL derives from the seed takes as long as a signature.
struct SigningKey::State {
  Key key;
};

SigningKey::SigningKey(std::string_view seed)
    : state_(std::make_unique<State>(Key(
          EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytesOf(seed), seed.size())))) {
  require(state_->key != nullptr);
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
  const Digest digest(EVP_MD_CTX_new());
  std::string signature(64, '\0');
  size_t size = signature.size();
  require(EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, state_->key.get()) == 1);
  require(EVP_DigestSign(digest.get(), reinterpret_cast<uint8_t*>(signature.data()), &size,
                         bytesOf(message), message.size()) == 1);
  return signature;
}

VerifyKey SigningKey::verifyKey() const {
  VerifyKey key;
  size_t size = key.bytes_.size();
  require(EVP_PKEY_get_raw_public_key(state_->key.get(), key.bytes_.data(), &size) == 1);
  return key;
}

std::string SigningKey::base64() const {
  std::array<uint8_t, 32> seed{};
  size_t size = seed.size();
  require(EVP_PKEY_get_raw_private_key(state_->key.get(), seed.data(), &size) == 1);
  std::string text = toBase64(textOf(seed));
  OPENSSL_cleanse(seed.data(), seed.size());
  return text;
}

}  // namespace cloister::base
