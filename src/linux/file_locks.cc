// SPDX-License-Identifier: Apache-2.0
#include "linux/file_locks.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <sstream>
#include <string_view>

#include "base/fd.h"
#include "base/file.h"

namespace cloister::linux {
namespace {

constexpr size_t kPiece = size_t{16} << 10;

// "1: POSIX  ADVISORY  WRITE 1234 08:01:99 0 EOF", and "1: -> POSIX ..." for who waits.
void count(const std::string& line, FileLocks& locks) {
  std::istringstream words(line);
  std::string number;
  std::string kind;
  words >> number >> kind;
  if (kind == "->") words >> kind;
  std::string mandatory;
  std::string access;
  pid_t pid = 0;
  if (!(words >> mandatory >> access >> pid)) return;
  ++locks.held[pid];
  ++locks.all;
}

}  // namespace

Result<FileLocks> readFileLocks(size_t most, const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failErrno("opening " + path);
  FileLocks locks;
  std::string text;
  std::string piece(kPiece, '\0');
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno("reading " + path);
    if (n == 0) return locks;
    text.append(piece, 0, static_cast<size_t>(n));
    size_t from = 0;
    for (size_t end = 0; (end = text.find('\n', from)) != std::string::npos; from = end + 1)
      count(text.substr(from, end - from), locks);
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
