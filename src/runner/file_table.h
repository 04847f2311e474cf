// SPDX-License-Identifier: Apache-2.0
// FileTable: the state of files at one moment, so that a later look finds new and changed files.
// Fixed memory: files beyond the capacity are not remembered, and so count as new.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string_view>

namespace cloister::runner {

// FNV-1a. A program that makes two paths collide only hides its own file from itself.
inline uint64_t hashPath(std::string_view path) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : path) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

template <size_t kSlots>
class BasicFileTable {
  static_assert((kSlots & (kSlots - 1)) == 0, "a power of two");

 public:
  void clear() {
    if (count_ == 0) return;  // leaves the memory untouched, and so unpaid for
    for (Slot& slot : slots_)
      slot.used = false;
    count_ = 0;
  }

  // Remembers the file. False when the table is full (three quarters, to keep probes short).
  bool add(std::string_view path, const struct stat& st) {
    if (count_ >= kSlots / 4 * 3) return false;
    Slot* slot = find(hashPath(path));
    if (!slot->used) ++count_;
    *slot = makeSlot(path, st);
    return true;
  }

  // Allocates the memory for a file with this path.
  void touch(std::string_view path) {
    volatile bool& used = find(hashPath(path))->used;
    used = used;
  }

  // True if the file was remembered and is unchanged.
  [[nodiscard]] bool unchanged(std::string_view path, const struct stat& st) {
    const Slot* slot = find(hashPath(path));
    return slot->used && *slot == makeSlot(path, st);
  }

 private:
  struct Slot {
    uint64_t hash = 0;
    uint64_t inode = 0;
    int64_t size = 0;
    int64_t mtime = 0;
    int64_t ctime = 0;
    bool used = false;
    friend bool operator==(const Slot&, const Slot&) = default;
  };

  static Slot makeSlot(std::string_view path, const struct stat& st) {
    constexpr int64_t kSecond = 1'000'000'000;
    return {hashPath(path),
            st.st_ino,
            st.st_size,
            st.st_mtim.tv_sec * kSecond + st.st_mtim.tv_nsec,
            st.st_ctim.tv_sec * kSecond + st.st_ctim.tv_nsec,
            true};
  }

  Slot* find(uint64_t hash) {
    size_t i = hash & (kSlots - 1);
    while (slots_[i].used && slots_[i].hash != hash)
      i = (i + 1) & (kSlots - 1);
    return &slots_[i];
  }

  Slot slots_[kSlots]{};
  size_t count_ = 0;
};

using FileTable = BasicFileTable<8192>;

}  // namespace cloister::runner
