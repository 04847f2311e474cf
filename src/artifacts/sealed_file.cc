// SPDX-License-Identifier: Apache-2.0
#include "artifacts/sealed_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sodium.h>

#include "artifacts/aead.h"
#include "base/file.h"

namespace cloister::artifacts {
namespace {

constexpr std::string_view kMagic = "CLBLOB1\n";
constexpr size_t kSalt = kNonceBytes - sizeof(uint64_t);
constexpr size_t kHeader = kMagic.size() + kSalt;
constexpr size_t kDigest = 32;
constexpr size_t kFooter = sizeof(uint64_t) + kDigest + kTagBytes;
constexpr uint64_t kFooterNumber = UINT64_MAX;

// The kind of a sealed part.
enum class Part : char { kMiddle = 0, kLast = 1, kFooter = 2 };

std::string littleEndian(uint64_t value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof value; ++i)
    bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

uint64_t fromLittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof value; ++i)
    value |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return value;
}

// Inputs of sealing a part besides the key.
struct Place {
  std::string nonce;
  std::string about;
  Place(const std::string& salt, uint64_t number, Part part)
      : nonce(salt + littleEndian(number)), about(std::string(kMagic) + static_cast<char>(part)) {}
};

std::string seal(const Secret& key, const Place& place, std::string_view plain) {
  return seal(key, place.nonce, place.about, plain);
}

bool unseal(const Secret& key, const Place& place, std::string_view sealed, std::string& plain) {
  return unseal(key, place.nonce, place.about, sealed, plain);
}

uint64_t chunksOf(uint64_t size) {
  return size / kChunk + (size % kChunk != 0 ? 1 : 0);
}

// A local file.
class FileBytes final : public SealedBytes {
 public:
  FileBytes(Fd file, uint64_t size) : file_(std::move(file)), size_(size) {}
  [[nodiscard]] uint64_t size() const override { return size_; }
  Result<std::string> read(uint64_t offset, size_t length) override {
    std::string bytes(length, '\0');
    size_t got = 0;
    while (got < length) {
      const ssize_t n =
          ::pread(file_.get(), bytes.data() + got, length - got, static_cast<off_t>(offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failErrno("reading a blob");
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    bytes.resize(got);
    return bytes;
  }

 private:
  Fd file_;
  uint64_t size_;
};

std::unexpected<Error> damaged(const std::string& what) {
  return fail(Code::kInternal, "reading a blob: " + what);
}

}  // namespace

SealedWriter::SealedWriter(Fd file, const Secret& key) : file_(std::move(file)), key_(key) {}

SealedWriter::~SealedWriter() {
  sodium_memzero(chunk_.data(), chunk_.size());
}

Result<> SealedWriter::write(std::string_view bytes) {
  if (!file_) return fail(Code::kInternal, "writing a blob: it is finished");
  digest_.update(bytes);
  size_ += bytes.size();
  while (!bytes.empty()) {
    if (chunk_.size() == kChunk) TRY(sealChunk(false));
    const size_t n = std::min(bytes.size(), kChunk - chunk_.size());
    chunk_.append(bytes.substr(0, n));
    bytes.remove_prefix(n);
  }
  return {};
}

Result<std::string> SealedWriter::finish(bool sync) {
  if (!file_) return fail(Code::kInternal, "finishing a blob: it is finished");
  if (!chunk_.empty()) TRY(sealChunk(true));
  TRY(start());
  std::string hex = digest_.hex();
  unsigned char raw[kDigest];
  sodium_hex2bin(raw, sizeof raw, hex.data(), hex.size(), nullptr, nullptr, nullptr);
  const std::string footer =
      littleEndian(size_) + std::string(reinterpret_cast<const char*>(raw), sizeof raw);
  TRY(put(seal(key_, Place(salt_, kFooterNumber, Part::kFooter), footer)));
  if (sync && base::syncFile(file_.get()) != 0) {
    const int error = errno;
    file_.reset();  // the state on disk is unknown
    return failErrno("syncing a blob", error);
  }
  file_.reset();
  return hex;
}

Result<> SealedWriter::start() {
  if (!salt_.empty()) return {};
  salt_.resize(kSalt);
  randombytes_buf(salt_.data(), salt_.size());
  return put(std::string(kMagic) + salt_);
}

Result<> SealedWriter::sealChunk(bool last) {
  TRY(start());
  const Place place(salt_, chunks_++, last ? Part::kLast : Part::kMiddle);
  TRY(put(seal(key_, place, chunk_)));
  chunk_.clear();
  return {};
}

Result<> SealedWriter::put(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      file_.reset();
      return failErrno("writing a blob", error);
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<SealedReader> SealedReader::open(Fd file, const Secret& key) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return failErrno("reading a blob");
  return open(std::make_unique<FileBytes>(std::move(file), static_cast<uint64_t>(status.st_size)),
              key);
}

Result<SealedReader> SealedReader::open(std::unique_ptr<SealedBytes> bytes, const Secret& key) {
  const uint64_t length = bytes->size();
  if (length < kHeader + kFooter) return damaged("it is cut off in its header");
  SealedReader reader(std::move(bytes), key);
  const std::string footer = TRY(reader.bytes_->read(length - kFooter, kFooter));
  const std::string header = TRY(reader.bytes_->read(0, kHeader));
  if (header.size() != kHeader || !header.starts_with(kMagic)) {
    return damaged("its header is not one");
  }
  reader.salt_ = header.substr(kMagic.size());
  std::string plain;
  if (!unseal(key, Place(reader.salt_, kFooterNumber, Part::kFooter), footer, plain)) {
    const uint64_t last = (length - kHeader) / (kChunk + kTagBytes);
    return damaged("its footer is damaged, or it is cut off in chunk " + std::to_string(last));
  }
  reader.size_ = fromLittleEndian(plain);
  reader.sha256_ = base::toHex(std::string_view(plain).substr(sizeof(uint64_t)));
  if (length != kHeader + reader.size_ + chunksOf(reader.size_) * kTagBytes + kFooter) {
    const uint64_t last = (length - kHeader - kFooter) / (kChunk + kTagBytes);
    return damaged("its chunks are not all there, or too many, after chunk " +
                   std::to_string(last));
  }
  return reader;
}

Result<std::string> SealedReader::read(uint64_t offset, size_t length) const {
  std::string bytes;
  if (offset >= size_) return bytes;
  const uint64_t end = offset + std::min<uint64_t>(length, size_ - offset);
  bytes.reserve(static_cast<size_t>(end - offset));
  while (offset < end) {
    const std::string chunk = TRY(openChunk(offset / kChunk));
    const size_t from = offset % kChunk;
    const size_t n = std::min<uint64_t>(chunk.size() - from, end - offset);
    bytes.append(chunk, from, n);
    offset += n;
  }
  return bytes;
}

Result<std::string> SealedReader::openChunk(uint64_t number) const {
  const bool last = number + 1 == chunksOf(size_);
  const size_t plain_size = last ? static_cast<size_t>(size_ - number * kChunk) : kChunk;
  const std::string sealed =
      TRY(bytes_->read(kHeader + number * (kChunk + kTagBytes), plain_size + kTagBytes));
  std::string plain;
  const Place place(salt_, number, last ? Part::kLast : Part::kMiddle);
  if (sealed.size() != plain_size + kTagBytes || !unseal(key_, place, sealed, plain)) {
    return damaged("chunk " + std::to_string(number) + " is damaged");
  }
  return plain;
}

}  // namespace cloister::artifacts
