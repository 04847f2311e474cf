// SPDX-License-Identifier: Apache-2.0
// The manifest of a snapshot: the entries of the workspace, and the chunks with the content of its
// files, in the order of the entries. A manifest is a blob, so encrypted, and named by its digest:
//   "CLSNAP1\n"
//   entries: u8 kind, u32 mode, u64 size, i64 modified (ns), bytes path, bytes target
//   chunks, in order: u64 size, bytes SHA-256 (64 hex digits)
//   u64 offset of the chunks, u64 entries, u64 chunks, u64 bytes of all files
// Integers are little-endian, bytes are a u32 length and that many. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>

#include "artifacts/blobs.h"
#include "base/result.h"
#include "model/snapshot.h"
#include "wire/tar.h"

namespace cloister::orchestrator {

class ManifestWriter {
 public:
  ManifestWriter();
  void add(const wire::tar::Entry& entry);
  // After all entries.
  void add(const model::SnapshotChunk& chunk);
  void finish();
  // The bytes written since the last call; the writer holds no more.
  std::string take();
  [[nodiscard]] size_t waiting() const { return text_.size(); }

  [[nodiscard]] uint64_t entries() const { return entries_; }
  [[nodiscard]] uint64_t chunks() const { return chunks_; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  [[nodiscard]] uint64_t size() const { return taken_ + text_.size(); }

 private:
  std::string text_;
  uint64_t taken_ = 0;
  uint64_t entries_ = 0;
  uint64_t chunks_ = 0;
  uint64_t chunks_at_ = 0;
  uint64_t bytes_ = 0;
};

// Reads a manifest, both lists at once, with a bounded look ahead. Errors: kInternal; kUnavailable
// if the store of blobs does not answer.
class ManifestReader {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  // `sha256`, the blob's, is for messages.
  static Task<Result<ManifestReader>> open(std::shared_ptr<artifacts::BlobReader> blob,
                                           std::string sha256);

  Task<Result<std::optional<wire::tar::Entry>>> entry();  // nothing at their end
  Task<Result<std::optional<model::SnapshotChunk>>> chunk();

 private:
  // A part of the blob, read from the front.
  struct Cursor {
    uint64_t at = 0;
    uint64_t end = 0;
    std::string ahead = {};
    size_t taken = 0;
  };
  ManifestReader(std::shared_ptr<artifacts::BlobReader> blob, std::string sha256)
      : blob_(std::move(blob)), sha256_(std::move(sha256)) {}
  [[nodiscard]] std::unexpected<Error> damaged(std::string_view what) const;
  Task<Result<std::string>> read(uint64_t offset, size_t length);
  Task<Result<std::string_view>> look(Cursor& cursor);

  std::shared_ptr<artifacts::BlobReader> blob_;
  std::string sha256_;
  Cursor entries_;
  Cursor chunks_;
};

// The archive of a snapshot, put together on demand.
class SnapshotArchive {
 public:
  template <class T>
  using Task = boost::asio::awaitable<T>;

  // Digests are computed in `background`.
  SnapshotArchive(ManifestReader manifest, boost::asio::thread_pool& background)
      : manifest_(std::move(manifest)), background_(background) {}

  // More of the archive; a chunk wanted next, for give(); or the end.
  struct End {};
  using Step = std::variant<std::string, model::SnapshotChunk, End>;
  // kInternal names the damaged chunk.
  Task<Result<Step>> next();
  void give(std::shared_ptr<artifacts::BlobReader> chunk) { given_ = std::move(chunk); }

 private:
  Task<Result<>> readChunk();

  ManifestReader manifest_;
  boost::asio::thread_pool& background_;
  std::optional<model::SnapshotChunk> wanted_;
  std::shared_ptr<artifacts::BlobReader> given_;
  std::string piece_;  // of content, from taken_ on
  size_t taken_ = 0;
  uint64_t left_ = 0;  // of the present file
  std::string padding_;
  bool ended_ = false;
};

}  // namespace cloister::orchestrator
