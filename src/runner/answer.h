// SPDX-License-Identifier: Apache-2.0
// Answer: the file server's output on stdout (wire/files.h), gathered in fixed memory.
#pragma once

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "wire/codec.h"
#include "wire/files.h"

namespace cloister::runner {

class Answer {
 public:
  // These return errno.
  int put(std::string_view bytes) {
    while (!bytes.empty()) {
      if (used_ == sizeof buffer_) {
        if (const int error = flush(); error != 0) return error;
      }
      const size_t n =
          bytes.size() < sizeof buffer_ - used_ ? bytes.size() : sizeof buffer_ - used_;
      std::memcpy(buffer_ + used_, bytes.data(), n);
      used_ += n;
      bytes.remove_prefix(n);
    }
    return 0;
  }

  int entry(std::string_view path, const struct stat& st) {
    char text[PATH_MAX + 32];
    wire::Writer w(text, sizeof text);
    w.u8(static_cast<uint8_t>(kindOf(st.st_mode)));
    w.u32(st.st_mode & 07777);
    w.u64(static_cast<uint64_t>(st.st_size));
    w.i64(st.st_mtim.tv_sec * 1'000'000 + st.st_mtim.tv_nsec / 1'000);
    w.bytes(path);
    return w.ok() ? put(w.view()) : ENAMETOOLONG;
  }

  int change(wire::files::ChangeKind kind, bool directory, std::string_view path,
             std::string_view from) {
    static char text[2 * PATH_MAX + 16];
    wire::Writer w(text, sizeof text);
    w.u8(static_cast<uint8_t>(wire::files::Kind::kChange));
    w.u8(static_cast<uint8_t>(kind));
    w.u8(directory ? 1 : 0);
    w.bytes(path);
    w.bytes(from);
    return w.ok() ? put(w.view()) : ENAMETOOLONG;
  }

  int end(uint32_t left_out) {
    char text[8];
    wire::Writer w(text, sizeof text);
    w.u8(static_cast<uint8_t>(wire::files::Kind::kEnd));
    w.u32(left_out);
    return put(w.view());
  }

  int flush() {
    for (size_t sent = 0; sent < used_;) {
      const ssize_t n = write(STDOUT_FILENO, buffer_ + sent, used_ - sent);
      if (n < 0 && errno != EINTR) return errno;
      if (n > 0) sent += static_cast<size_t>(n);
    }
    used_ = 0;
    return 0;
  }

 private:
  static wire::files::Kind kindOf(mode_t mode) {
    using wire::files::Kind;
    if (S_ISREG(mode)) return Kind::kFile;
    if (S_ISDIR(mode)) return Kind::kDirectory;
    return S_ISLNK(mode) ? Kind::kLink : Kind::kOther;
  }

  char buffer_[65'536];
  size_t used_ = 0;
};

}  // namespace cloister::runner
