// SPDX-License-Identifier: Apache-2.0
// The format of an encrypted blob: a header with a random salt, chunks of 64 KiB, a footer with
// size and SHA-256. XChaCha20-Poly1305 seals each part under the salt and the part's number, so a
// chunk that was changed, moved, cut off or taken from another file does not open. The footer gives
// the chunks' number and their content's hash. docs/adr/0018. Memory: two chunks each. One thread
// at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "artifacts/keyring.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/result.h"

namespace cloister::artifacts {

inline constexpr size_t kChunk = size_t{64} << 10;

// Writes a sealed file to an empty file. After an error the writer is unusable.
class SealedWriter {
 public:
  SealedWriter(Fd file, const Secret& key);
  SealedWriter(const SealedWriter&) = delete;
  SealedWriter& operator=(const SealedWriter&) = delete;
  ~SealedWriter();

  Result<> write(std::string_view bytes);
  // Writes the remaining data and the footer, syncs if asked, and returns the digest (64 hex
  // digits). Call once.
  Result<std::string> finish(bool sync);

 private:
  Result<> start();
  Result<> sealChunk(bool last);
  Result<> put(std::string_view bytes);

  Fd file_;  // closed after finish() or a failure
  Secret key_;
  std::string salt_;   // "" until the header is written
  std::string chunk_;  // pending plaintext, at most kChunk: the last chunk is known only at the end
  uint64_t chunks_ = 0;
  uint64_t size_ = 0;
  base::Sha256 digest_;
};

// Where the bytes of a sealed file lie, if not in a local file.
class SealedBytes {
 public:
  virtual ~SealedBytes() = default;
  [[nodiscard]] virtual uint64_t size() const = 0;
  // Fewer bytes at the end. May block.
  virtual Result<std::string> read(uint64_t offset, size_t length) = 0;
};

class SealedReader {
 public:
  // Checks header, footer and length; kInternal names the damage.
  static Result<SealedReader> open(Fd file, const Secret& key);
  static Result<SealedReader> open(std::unique_ptr<SealedBytes> bytes, const Secret& key);

  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] const std::string& sha256() const { return sha256_; }
  // Random: another for each writing of the same content.
  [[nodiscard]] const std::string& salt() const { return salt_; }
  // At most `length` bytes from `offset`, fewer at the end; opens only the necessary chunks.
  // kInternal names a damaged chunk.
  [[nodiscard]] Result<std::string> read(uint64_t offset, size_t length) const;

 private:
  SealedReader(std::unique_ptr<SealedBytes> bytes, const Secret& key)
      : bytes_(std::move(bytes)), key_(key) {}
  [[nodiscard]] Result<std::string> openChunk(uint64_t number) const;

  std::unique_ptr<SealedBytes> bytes_;
  Secret key_;
  std::string salt_;
  uint64_t size_ = 0;
  std::string sha256_;
};

}  // namespace cloister::artifacts
