// SPDX-License-Identifier: Apache-2.0
#include "images/archive.h"

#include <unistd.h>

#include <cerrno>

#include <archive.h>
#include <archive_entry.h>

#include "model/escalation.h"

namespace cloister::images {
namespace {

constexpr size_t kMostMessage = 200;

std::string textOf(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

EntryType typeOf(archive_entry* entry) {
  if (archive_entry_hardlink(entry) != nullptr) return EntryType::kHardLink;
  switch (archive_entry_filetype(entry)) {
    case AE_IFREG:
      return EntryType::kFile;
    case AE_IFDIR:
      return EntryType::kDirectory;
    case AE_IFLNK:
      return EntryType::kSymbolicLink;
    default:
      return EntryType::kOther;
  }
}

}  // namespace

Result<std::string_view> FileSource::next() {
  ssize_t n = -1;
  do {
    n = ::read(file_.get(), buffer_.data(), buffer_.size());
  } while (n < 0 && errno == EINTR);
  if (n < 0) return failErrno("reading");
  const std::string_view bytes(buffer_.data(), static_cast<size_t>(n));
  size_ += bytes.size();
  hash_.update(bytes);
  return bytes;
}

Reader::Reader(Source& source, bool tar) : archive_(archive_read_new()), source_(source) {
  // Accepts an empty file as an archive without entries.
  archive_read_support_format_empty(archive_);
  if (tar) {
    archive_read_support_format_tar(archive_);
    return;
  }
  archive_read_support_format_raw(archive_);
  archive_read_support_filter_gzip(archive_);
  archive_read_support_filter_zstd(archive_);
}

Reader::~Reader() {
  archive_read_free(archive_);
}

ssize_t Reader::read(struct archive* archive, void* self, const void** bytes) {
  auto* reader = static_cast<Reader*>(self);
  auto more = reader->source_.next();
  if (!more) {
    reader->failed_ = std::move(more).error();
    archive_set_error(archive, EIO, "the source failed");
    return -1;
  }
  *bytes = more->data();
  return static_cast<ssize_t>(more->size());
}

Result<> Reader::open() {
  if (archive_read_open(archive_, this, nullptr, read, nullptr) == ARCHIVE_OK) return {};
  return std::unexpected(error());
}

Error Reader::error() const {
  if (failed_) return *failed_;
  const std::string said = textOf(archive_error_string(archive_));
  return base::fail(Code::kInvalid, "not a whole archive: " + model::safeText(said, kMostMessage))
      .error();
}

Result<std::string_view> PlainSource::next() {
  if (ended_) return std::string_view();
  if (!open_) {
    TRY(reader_.open());
    open_ = true;
    archive_entry* entry = nullptr;
    const int got = archive_read_next_header(reader_.get(), &entry);
    ended_ = got == ARCHIVE_EOF;
    if (ended_) return std::string_view();
    if (got != ARCHIVE_OK) return std::unexpected(reader_.error());
  }
  const void* bytes = nullptr;
  size_t size = 0;
  la_int64_t at = 0;
  do {
    const int got = archive_read_data_block(reader_.get(), &bytes, &size, &at);
    ended_ = got == ARCHIVE_EOF;
    if (ended_) return std::string_view();
    if (got != ARCHIVE_OK) return std::unexpected(reader_.error());
  } while (size == 0);
  if (size > budget_) {
    return fail(Code::kTooLarge, "unpacks to more than images.max_mb of the configuration allows");
  }
  budget_ -= size;
  const std::string_view piece(static_cast<const char*>(bytes), size);
  hash_.update(piece);
  return piece;
}

Result<std::optional<Entry>> TarReader::nextEntry() {
  if (!open_) TRY(reader_.open());
  open_ = true;
  archive_entry* entry = nullptr;
  const int got = archive_read_next_header(reader_.get(), &entry);
  if (got == ARCHIVE_EOF) return std::nullopt;
  // A warning means that the reader understood something only in part, such as a name: refuse, do
  // not guess.
  if (got != ARCHIVE_OK) return std::unexpected(reader_.error());
  const char* path = archive_entry_pathname(entry);
  if (path == nullptr) return fail(Code::kInvalid, "an entry whose name cannot be read");
  Entry out;
  out.path = path;
  out.type = typeOf(entry);
  out.attributes = {archive_entry_perm(entry), archive_entry_mtime(entry)};
  const la_int64_t size = archive_entry_size(entry);
  if (size < 0) return fail(Code::kInvalid, shown(out.path) + ": a negative size");
  if (out.type == EntryType::kFile) out.size = static_cast<uint64_t>(size);
  if (out.type == EntryType::kSymbolicLink) out.target = textOf(archive_entry_symlink(entry));
  if (out.type == EntryType::kHardLink) out.target = textOf(archive_entry_hardlink(entry));
  return out;
}

Result<std::optional<Content::Piece>> TarReader::next() {
  const void* bytes = nullptr;
  size_t size = 0;
  la_int64_t at = 0;
  const int got = archive_read_data_block(reader_.get(), &bytes, &size, &at);
  if (got == ARCHIVE_EOF) return std::nullopt;
  if (got != ARCHIVE_OK) return std::unexpected(reader_.error());
  if (at < 0) return fail(Code::kInvalid, "a negative place in a file");
  return Piece{{static_cast<const char*>(bytes), size}, static_cast<uint64_t>(at)};
}

}  // namespace cloister::images
