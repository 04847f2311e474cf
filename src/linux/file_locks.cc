// SPDX-License-Identifier: Apache-2.0
#include "linux/file_locks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/file.h"

namespace cloister::linux {
namespace {

constexpr size_t kPiece = size_t{16} << 10;

// Counts equal lines: the maximum seen in a single read(2), since the next read may repeat some
// lines.
class Counting {
 public:
  explicit Counting(FileLocks& locks) : locks_(locks) {}

  void beginRead() { ++reads_; }
  void add(std::string_view line);

 private:
  struct Line {
    uint64_t read = 0;
    uint64_t in_this_read = 0;
    uint64_t counted = 0;
  };
  FileLocks& locks_;
  uint64_t reads_ = 0;
  std::unordered_map<std::string, Line> lines_;
};

// "1: POSIX  ADVISORY  WRITE 1234 08:01:99 0 EOF", and "1: -> POSIX ..." for a waiter. The number
// is only the position in the list.
void Counting::add(std::string_view text) {
  std::string line(text.substr(std::min(text.find(':'), text.size())));
  std::istringstream words(line);
  std::string colon;
  std::string kind;
  words >> colon >> kind;
  if (kind == "->") words >> kind;
  std::string mandatory;
  std::string access;
  pid_t pid = 0;
  if (!(words >> mandatory >> access >> pid)) return;
  ++locks_.all;
  Line& same = lines_[std::move(line)];
  if (std::exchange(same.read, reads_) != reads_) same.in_this_read = 0;
  if (++same.in_this_read <= same.counted) return;
  ++same.counted;
  ++locks_.held[pid];
}

}  // namespace

Result<FileLocks> readFileLocks(size_t most, const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failErrno("opening " + path);
  FileLocks locks;
  Counting counting(locks);
  std::string text;
  std::string piece(kPiece, '\0');
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno("reading " + path);
    if (n == 0) return locks;
    text.append(piece, 0, static_cast<size_t>(n));
    counting.beginRead();
    size_t from = 0;
    for (size_t end = 0; (end = text.find('\n', from)) != std::string::npos; from = end + 1)
      counting.add(std::string_view(text).substr(from, end - from));
    text.erase(0, from);
    locks.whole = locks.all < most;
    if (!locks.whole) return locks;
  }
}

std::optional<uint64_t> roomForFileLocks(const std::string& path) {
  const auto text = base::readFile(path, 4096);
  if (!text) return std::nullopt;
  uint64_t room = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), room);
  return error == std::errc() ? std::optional(room) : std::nullopt;
}

}  // namespace cloister::linux
