// SPDX-License-Identifier: Apache-2.0
// The tar archives (POSIX pax, IEEE Std 1003.1) that a session's file server writes and reads,
// parsed and composed outside the sandbox. The archive comes from inside: hostile input is the
// normal case, and content that the file server would not have written is refused. One thread at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "wire/files.h"

namespace cloister::wire::tar {

// A regular file, a directory or a link.
struct Entry {
  files::Kind kind = files::Kind::kFile;
  uint32_t mode = 0;        // 0 to 0777
  uint64_t size = 0;        // of a file; so many bytes of content follow
  int64_t modified_at = 0;  // wall-clock nanoseconds, not negative
  std::string path;         // isKeptPath(); otherwise any bytes
  // The target of a link; any bytes. The default lets designated initializers leave out the target.
  std::string target = {};  // NOLINT(readability-redundant-member-init)

  friend bool operator==(const Entry&, const Entry&) = default;
};

// The next bytes of the current entry; valid until the next call.
struct Content {
  std::string_view bytes;
};

struct End {};

using Part = std::variant<Entry, Content, End>;

// True for a relative path without empty, "." and ".." components, NUL or excess length.
bool isPlainPath(std::string_view path);

// The same, or such a path beneath the home directory, with the directory in front.
bool isKeptPath(std::string_view path);

class Reader {
 public:
  // The archive's next bytes; after next() has given nothing.
  void feed(std::string_view bytes);
  // The next part; nullopt until more bytes are added. After End only zeros may follow, at most a
  // block. kInvalid for other bytes; then the reader is unusable.
  Result<std::optional<Part>> next();
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  Result<std::optional<Part>> header();
  Result<> extended(std::string_view records);
  Result<> record(std::string_view text);

  std::string bytes_;
  size_t at_ = 0;          // bytes of bytes_ already used
  uint64_t left_ = 0;      // remaining content
  uint64_t skip_ = 0;      // padding
  uint64_t extended_ = 0;  // remaining bytes of a pax header, with padding
  uint64_t extended_size_ = 0;
  std::optional<std::string> path_;  // from a pax header, for the next entry
  std::optional<std::string> target_;
  std::optional<int64_t> modified_at_;
  size_t after_ = 0;  // bytes after the end
  bool ended_ = false;
};

// The bytes before an entry's content, after an entry's content, and at the archive's end.
std::string header(const Entry& entry);
std::string padding(uint64_t size);
std::string end();

}  // namespace cloister::wire::tar
