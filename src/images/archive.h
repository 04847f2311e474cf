// SPDX-License-Identifier: Apache-2.0
// Archives, as libarchive(3) reads them: decompression in one stage, tar in another, so that the
// bytes between the stages can be hashed and counted. Every byte is hostile.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/crypto.h"
#include "base/fd.h"
#include "base/result.h"
#include "images/tree.h"

struct archive;

namespace cloister::images {

// A stream of bytes; "" at its end. The returned bytes are valid until the next call.
class Source {
 public:
  virtual ~Source() = default;
  virtual Result<std::string_view> next() = 0;
};

// The bytes of an open file, counted and hashed.
class FileSource : public Source {
 public:
  explicit FileSource(Fd file) : file_(std::move(file)), buffer_(size_t{256} << 10) {}
  Result<std::string_view> next() override;

  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] std::string digest() const { return "sha256:" + hash_.hex(); }

 private:
  Fd file_;
  std::vector<char> buffer_;
  uint64_t size_ = 0;
  base::Sha256 hash_;
};

// A libarchive reader over a source; the error of the source is kept.
class Reader {
 public:
  Reader(Source& source, bool tar);
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();

  [[nodiscard]] struct archive* get() const { return archive_; }
  Result<> open();
  // The error of the last call.
  [[nodiscard]] Error error() const;

 private:
  static ssize_t read(struct archive* archive, void* self, const void** bytes);
  struct archive* archive_;
  Source& source_;
  std::optional<Error> failed_;
};

// The decompressed bytes of another source (gzip, Zstandard or plain), hashed, and limited by
// `budget`, which is reduced.
class PlainSource : public Source {
 public:
  PlainSource(Source& source, uint64_t& budget) : reader_(source, false), budget_(budget) {}
  Result<std::string_view> next() override;

  [[nodiscard]] std::string digest() const { return "sha256:" + hash_.hex(); }

 private:
  Reader reader_;
  uint64_t& budget_;
  bool open_ = false;
  bool ended_ = false;
  base::Sha256 hash_;
};

enum class EntryType : uint8_t { kFile, kDirectory, kSymbolicLink, kHardLink, kOther };

struct Entry {
  std::string path;
  EntryType type = EntryType::kOther;
  Attributes attributes;
  uint64_t size = 0;   // of a file
  std::string target;  // of a link
};

// The entries of an uncompressed tar.
class TarReader : public Content {
 public:
  explicit TarReader(Source& source) : reader_(source, true) {}

  // nullopt at its end.
  Result<std::optional<Entry>> nextEntry();
  // The content of the last entry.
  Result<std::optional<Piece>> next() override;

 private:
  Reader reader_;
  bool open_ = false;
};

}  // namespace cloister::images
