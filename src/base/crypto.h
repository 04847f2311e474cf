// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) and base64 (RFC 4648 §4) over OpenSSL, Ed25519 (RFC 8032) over libsodium;
// hex.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::base {

// A digest of bytes fed in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  ~Sha256();

  void update(std::string_view bytes);
  // 64 hex digits for the bytes so far; more bytes may follow.
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// 64 lower-case hex digits.
std::string sha256Hex(std::string_view bytes);
// 32 hex digits. MD5 is broken: only compare with dpkg's sums, never where an attacker chooses the
// bytes. "" if the system forbids MD5 (FIPS 140).
std::string md5Hex(std::string_view bytes);

std::string toHex(std::string_view bytes);
std::string toBase64(std::string_view bytes);
Result<std::string> fromBase64(std::string_view text);  // strict: padding required, no whitespace

// Compares without telling by time where two secrets differ.
bool equalSecret(std::string_view a, std::string_view b);

// Verifies with a public key only.
class VerifyKey {
 public:
  static Result<VerifyKey> fromBase64(std::string_view text);  // 32 bytes
  [[nodiscard]] bool verify(std::string_view message, std::string_view signature) const;
  [[nodiscard]] std::string base64() const;
  // The first 16 hex digits of the key's SHA-256, as its name.
  [[nodiscard]] std::string id() const;

 private:
  friend class SigningKey;
  std::array<uint8_t, 32> bytes_{};
};

// A private key, wiped on destruction. Any threads may sign at the same time.
class SigningKey {
 public:
  static SigningKey generate();
  static Result<SigningKey> fromBase64(std::string_view text);  // the 32-byte seed
  // Reads the seed from `path`, or makes a new seed there with mode 0600.
  static Result<SigningKey> loadOrCreate(const std::string& path);
  SigningKey(SigningKey&&) noexcept;
  SigningKey& operator=(SigningKey&&) noexcept;
  SigningKey(const SigningKey&) = delete;
  SigningKey& operator=(const SigningKey&) = delete;
  ~SigningKey();

  [[nodiscard]] std::string sign(std::string_view message) const;  // 64 raw bytes
  [[nodiscard]] VerifyKey verifyKey() const;
  [[nodiscard]] std::string base64() const;

 private:
  struct State;
  explicit SigningKey(std::string_view seed);
  std::unique_ptr<State> state_;
};

}  // namespace cloister::base
