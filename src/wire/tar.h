// SPDX-License-Identifier: Apache-2.0
// The tar archives (POSIX pax, IEEE Std 1003.1) that a session's file server writes and reads,
// taken apart and put together outside of the sandbox. The archive comes from inside: hostile
// input is the normal case, and anything that the file server would not have written is refused.
// One thread at a time.
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
  std::string path;         // plain and relative; otherwise any bytes
  // Of a link; any bytes. With a default, so that designated initializers may leave it out.
  std::string target = {};  // NOLINT(readability-redundant-member-init)

  friend bool operator==(const Entry&, const Entry&) = default;
};

// The next bytes of the entry before it; valid until the next call.
struct Content {
  std::string_view bytes;
};

struct End {};

using Part = std::variant<Entry, Content, End>;

// True for a relative path without empty, "." and ".." components, NUL or excess length.
bool isPlainPath(std::string_view path);

class Reader {
 public:
  // The archive's next bytes; after next() has given nothing.
  void feed(std::string_view bytes);
  // The next part; nothing while more bytes are needed. After End nothing may come but zeros, a
  // block of them at most. kInvalid for what is no such archive; then there is no going on.
  Result<std::optional<Part>> next();
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  Result<std::optional<Part>> header();
  Result<> extended(std::string_view records);
  Result<> record(std::string_view text);

  std::string bytes_;
  size_t at_ = 0;          // what of bytes_ has been taken
  uint64_t left_ = 0;      // content that is still to come
  uint64_t skip_ = 0;      // padding
  uint64_t extended_ = 0;  // of a pax header that is still to come, with its padding
  uint64_t extended_size_ = 0;
  std::optional<std::string> path_;  // of a pax header, for the entry that follows
  std::optional<std::string> target_;
  std::optional<int64_t> modified_at_;
  size_t after_ = 0;  // bytes after the end
  bool ended_ = false;
};

// What goes before an entry's content, what goes after it, and what ends the archive.
std::string header(const Entry& entry);
std::string padding(uint64_t size);
std::string end();

}  // namespace cloister::wire::tar
