// SPDX-License-Identifier: Apache-2.0
// Tail: the last bytes of an unread stream, in fixed memory. Zero at first, so the memory costs
// nothing until its first use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace cloister::runner {

class Tail {
 public:
  static constexpr size_t kMost = 65'536;

  void add(std::string_view bytes) {
    total_ += bytes.size();
    if (bytes.size() > kMost) bytes.remove_prefix(bytes.size() - kMost);
    while (!bytes.empty()) {
      const size_t at = end_ % kMost;
      const size_t n = std::min(bytes.size(), kMost - at);
      std::memcpy(bytes_ + at, bytes.data(), n);
      end_ = at + n;
      size_ = std::min(kMost, size_ + n);
      bytes.remove_prefix(n);
    }
  }
  // In two parts, the older first.
  [[nodiscard]] std::string_view older() const {
    return size_ > end_ ? std::string_view(bytes_ + (kMost - (size_ - end_)), size_ - end_)
                        : std::string_view();
  }
  [[nodiscard]] std::string_view newer() const {
    const size_t n = std::min(size_, end_);
    return {bytes_ + (end_ - n), n};
  }
  [[nodiscard]] uint64_t lost() const { return total_ - size_; }  // bytes, before the first
  void clear() { end_ = size_ = total_ = 0; }

 private:
  size_t end_ = 0;  // of the newest byte, at most kMost
  size_t size_ = 0;
  uint64_t total_ = 0;
  char bytes_[kMost] = {};
};

}  // namespace cloister::runner
