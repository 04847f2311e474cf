// SPDX-License-Identifier: Apache-2.0
// CommandText: the argument and environment strings of the next program, gathered piece by piece in
// fixed memory. An overflow is remembered as the error of the following start.
#pragma once

#include <cerrno>
#include <cstring>
#include <string_view>

namespace cloister::runner {

enum class TextKind : unsigned char { kArgument = 0, kEnvironment = 1 };

template <size_t kBytes, size_t kStrings>
class BasicCommandText {
 public:
  void clear() {
    size_ = 0;
    error_ = 0;
    open_ = false;
    counts_[0] = counts_[1] = 0;
  }

  // Appends `text` to the current string, or starts a string; `more` leaves the string open. False
  // if an open string continues with another kind.
  bool add(TextKind kind, bool more, std::string_view text) {
    if (open_ && kind != kind_) return false;
    if (text.find('\0') != std::string_view::npos && error_ == 0) error_ = EINVAL;
    if (error_ == 0 && !open_) begin(kind);
    open_ = more;
    kind_ = kind;
    if (error_ == 0) append(text, more);
    return true;
  }

  // 0, E2BIG for too much, EINVAL for a NUL inside, a string left open or no argument at all.
  [[nodiscard]] int error() const {
    if (error_ != 0) return error_;
    return open_ || counts_[0] == 0 ? EINVAL : 0;
  }

  // Null-terminated lists; valid until clear().
  char** argv() { return strings_[0]; }
  char** envp() { return strings_[1]; }

 private:
  void begin(TextKind kind) {
    const auto k = static_cast<size_t>(kind);
    if (counts_[k] == kStrings) {
      error_ = E2BIG;
      return;
    }
    strings_[k][counts_[k]++] = bytes_ + size_;
  }

  void append(std::string_view text, bool more) {
    const size_t wanted = text.size() + (more ? 0 : 1);
    if (wanted > kBytes - size_) {
      error_ = E2BIG;
      return;
    }
    if (!text.empty()) std::memcpy(bytes_ + size_, text.data(), text.size());
    size_ += text.size();
    if (!more) bytes_[size_++] = '\0';
    for (size_t k = 0; k < 2; ++k)
      strings_[k][counts_[k]] = nullptr;
  }

  char bytes_[kBytes];
  char* strings_[2][kStrings + 1];
  size_t counts_[2] = {0, 0};
  size_t size_ = 0;
  int error_ = 0;
  bool open_ = false;
  TextKind kind_ = TextKind::kArgument;
};

// Twice the kernel's default limit (a quarter of an 8 MiB stack), so that programs meet the
// kernel's limit.
using CommandText = BasicCommandText<(size_t{4} << 20), 16'384>;

}  // namespace cloister::runner
