// SPDX-License-Identifier: Apache-2.0
#include "orchestrator/storage/snapshot_manifest.h"

#include <algorithm>
#include <utility>

#include "async/awaiting.h"
#include "base/crypto.h"
#include "wire/codec.h"
#include "wire/string_writer.h"

namespace cloister::orchestrator {
namespace {

using model::SnapshotChunk;
using wire::files::Kind;
using wire::tar::Entry;

constexpr std::string_view kMagic = "CLSNAP1\n";
constexpr size_t kFooter = 4 * sizeof(uint64_t);
constexpr size_t kAhead = size_t{128} << 10;
constexpr size_t kLongest = 16'384;  // of an entry: two paths and the rest
constexpr size_t kPiece = size_t{64} << 10;
constexpr size_t kMostChunk = size_t{64} << 20;
constexpr size_t kDigest = 64;

std::unexpected<Error> damaged(const SnapshotChunk& chunk, std::string_view why) {
  return fail(Code::kInternal, "chunk " + chunk.sha256 + " " + std::string(why));
}

}  // namespace

ManifestWriter::ManifestWriter() : text_(kMagic) {}

void ManifestWriter::add(const Entry& entry) {
  wire::StringWriter w;
  w.u8(static_cast<uint8_t>(entry.kind));
  w.u32(entry.mode);
  w.u64(entry.size);
  w.i64(entry.modified_at);
  w.bytes(entry.path);
  w.bytes(entry.target);
  text_ += w.take();
  ++entries_;
  bytes_ += entry.size;
}

void ManifestWriter::add(const SnapshotChunk& chunk) {
  if (chunks_ == 0) chunks_at_ = size();
  wire::StringWriter w;
  w.u64(chunk.size);
  w.bytes(chunk.sha256);
  text_ += w.take();
  ++chunks_;
}

void ManifestWriter::finish() {
  wire::StringWriter w;
  w.u64(chunks_ == 0 ? size() : chunks_at_);
  w.u64(entries_);
  w.u64(chunks_);
  w.u64(bytes_);
  text_ += w.take();
}

std::string ManifestWriter::take() {
  taken_ += text_.size();
  return std::exchange(text_, {});
}

boost::asio::awaitable<Result<ManifestReader>> ManifestReader::open(
    std::shared_ptr<artifacts::BlobReader> blob, std::string sha256) {
  ManifestReader reader(std::move(blob), std::move(sha256));
  const uint64_t size = reader.blob_->size();
  if (size < kMagic.size() + kFooter) co_return reader.damaged("it is too short");
  if (CO_TRY(co_await reader.read(0, kMagic.size())) != kMagic) {
    co_return reader.damaged("it is none");
  }
  const std::string footer = CO_TRY(co_await reader.read(size - kFooter, kFooter));
  const uint64_t chunks_at = wire::Reader(footer).u64();
  if (chunks_at < kMagic.size() || chunks_at > size - kFooter) co_return reader.damaged("its end");
  reader.entries_ = {.at = kMagic.size(), .end = chunks_at};
  reader.chunks_ = {.at = chunks_at, .end = size - kFooter};
  co_return std::move(reader);
}

std::unexpected<Error> ManifestReader::damaged(std::string_view what) const {
  return fail(Code::kInternal, "manifest " + sha256_ + " is damaged: " + std::string(what));
}

// All bytes, or an error.
boost::asio::awaitable<Result<std::string>> ManifestReader::read(uint64_t offset, size_t length) {
  auto bytes = co_await blob_->read(offset, length);
  if (!bytes && bytes.error().code == Code::kUnavailable) co_return bytes;
  if (!bytes) co_return damaged(bytes.error().message);
  if (bytes->size() != length) co_return damaged("it is cut short");
  co_return bytes;
}

// At least a whole item, or the rest.
boost::asio::awaitable<Result<std::string_view>> ManifestReader::look(Cursor& cursor) {
  if (cursor.ahead.size() - cursor.taken < kLongest && cursor.at < cursor.end) {
    cursor.ahead.erase(0, std::exchange(cursor.taken, 0));
    const auto more = std::min<uint64_t>(kAhead, cursor.end - cursor.at);
    cursor.ahead += CO_TRY(co_await read(cursor.at, more));
    cursor.at += more;
  }
  co_return std::string_view(cursor.ahead).substr(cursor.taken);
}

boost::asio::awaitable<Result<std::optional<Entry>>> ManifestReader::entry() {
  const std::string_view bytes = CO_TRY(co_await look(entries_));
  if (bytes.empty()) co_return std::nullopt;
  wire::Reader r(bytes);
  Entry entry;
  entry.kind = static_cast<Kind>(r.u8());
  entry.mode = r.u32();
  entry.size = r.u64();
  entry.modified_at = r.i64();
  entry.path = r.bytes();
  entry.target = r.bytes();
  const bool file = entry.kind == Kind::kFile;
  const bool known = file || entry.kind == Kind::kDirectory || entry.kind == Kind::kLink;
  if (!r.ok() || !known || entry.mode > 0777 || (!file && entry.size > 0) ||
      entry.modified_at < 0 || !wire::tar::isKeptPath(entry.path)) {
    co_return damaged("an entry");
  }
  constexpr size_t kFixed = 1 + 4 + 8 + 8 + 4 + 4;
  entries_.taken += kFixed + entry.path.size() + entry.target.size();
  co_return entry;
}

boost::asio::awaitable<Result<std::optional<SnapshotChunk>>> ManifestReader::chunk() {
  const std::string_view bytes = CO_TRY(co_await look(chunks_));
  if (bytes.empty()) co_return std::nullopt;
  wire::Reader r(bytes);
  SnapshotChunk chunk;
  chunk.size = r.u64();
  chunk.sha256 = r.bytes();
  if (!r.ok() || chunk.size == 0 || chunk.size > kMostChunk || chunk.sha256.size() != kDigest) {
    co_return damaged("a chunk's digest");
  }
  chunks_.taken += sizeof(uint64_t) + sizeof(uint32_t) + kDigest;
  co_return chunk;
}

// A chunk is checked whole before any use.
boost::asio::awaitable<Result<>> SnapshotArchive::readChunk() {
  const auto reader = std::exchange(given_, nullptr);
  const SnapshotChunk chunk = *std::exchange(wanted_, std::nullopt);
  if (reader->size() != chunk.size) co_return damaged(chunk, "has another size");
  auto bytes = co_await reader->read(0, chunk.size);
  if (!bytes && bytes.error().code == Code::kUnavailable) {
    co_return std::unexpected(std::move(bytes).error());
  }
  if (!bytes) co_return damaged(chunk, "is damaged: " + bytes.error().message);
  const auto whole = std::make_shared<std::string>(*std::move(bytes));
  const std::string digest = co_await async::inBackground<std::string>(
      background_, [whole] { return base::sha256Hex(*whole); });
  if (digest != chunk.sha256) co_return damaged(chunk, "has another digest");
  piece_ = std::move(*whole);
  taken_ = 0;
  co_return Result<>{};
}

boost::asio::awaitable<Result<SnapshotArchive::Step>> SnapshotArchive::next() {
  std::string out;
  while (out.size() < kPiece && !ended_) {
    if (given_) CO_TRY(co_await readChunk());
    if (left_ > 0 && taken_ == piece_.size()) {
      if (!out.empty()) break;
      wanted_ = CO_TRY(co_await manifest_.chunk());
      if (!wanted_) {
        co_return fail(Code::kInternal, "its files have more bytes than its chunks");
      }
      co_return *wanted_;
    }
    if (left_ > 0) {
      const auto n = std::min<uint64_t>({left_, piece_.size() - taken_, kPiece});
      out.append(piece_, taken_, n);
      taken_ += n;
      left_ -= n;
      if (left_ == 0) out += std::exchange(padding_, {});
      continue;
    }
    const auto entry = CO_TRY(co_await manifest_.entry());
    ended_ = !entry;
    out += entry ? wire::tar::header(*entry) : wire::tar::end();
    if (!entry) continue;
    left_ = entry->size;
    padding_ = wire::tar::padding(entry->size);
  }
  if (out.empty()) co_return End{};
  co_return out;
}

}  // namespace cloister::orchestrator
