// SPDX-License-Identifier: Apache-2.0
// EncryptedDisk: a bounded file system on disk whose contents and names are lost at its end. The
// file system is ext4 on a loop device over a file without a name (O_TMPFILE). The kernel encrypts
// one directory (Documentation/filesystems/fscrypt.rst) under a random key that exists only in the
// kernel's memory.
//
// Descriptors and mounts keep all of these objects alive. After the last reference is gone, for any
// reason, the key, the file system, the loop device and the file are gone too. Not encrypted are
// sizes, times, modes, owners and the number of files. Needs root.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

struct DiskShape {
  uint64_t bytes = 0;   // of the file; ext4 keeps about 2 % for itself
  uint64_t inodes = 0;  // usable inodes, never more

  friend auto operator<=>(const DiskShape&, const DiskShape&) = default;
};

// Why this machine cannot have an encrypted disk, with `remedy`; "" without objection. Cheap: tries
// nothing out. `directory`: place of the file.
struct DiskLack {
  std::string what;
  std::string remedy;
};
DiskLack encryptedDiskLack(const std::string& directory);

// kUnsupported: no file system has this shape; the error names a possible shape.
Result<> checkShape(const DiskShape& shape);

// An empty file system in memory, to be copied: holes but for some 100 KiB. Runs mke2fs(8) in a
// child of the caller, and waits for it.
Result<Fd> formatDisk(const DiskShape& shape);

struct DiskOptions {
  uint64_t keep_free = 0;   // bytes, where the file is
  uint64_t attributes = 0;  // of the mount, in addition to nosuid and nodev (mounts.h)
  uid_t uid = 0;            // whose the encrypted directory is,
  gid_t gid = 0;            // and owning group
};

// The encrypted directory in the file system's root, which root owns.
inline constexpr char kEncryptedDirectory[] = "scratch";

class EncryptedDisk {
 public:
  // `directory` is open, `format` from formatDisk() for the same shape. All of the file's space is
  // taken now: kNoSpace where less than `keep_free` would be left.
  static Result<EncryptedDisk> make(int directory, const DiskShape& shape, int format,
                                    const DiskOptions& options);

  // The detached mount of the whole file system; once.
  [[nodiscard]] Fd takeMount() { return std::move(mount_); }

  // Discards the key and unwritten data, closes all, waits without a time limit until no process
  // has the disk mounted, and frees its space.
  void destroy();

 private:
  Result<> encrypt(int directory);
  [[nodiscard]] Result<> bound(uint64_t inodes) const;

  std::string device_;   // "/dev/loop3"
  std::string backing_;  // the kernel's name for its file, unique while open
  Fd file_;
  Fd mount_;                    // until taken
  Fd root_;                     // of the file system
  unsigned char key_[16] = {};  // the key's identifier, not secret
};

}  // namespace cloister::linux
