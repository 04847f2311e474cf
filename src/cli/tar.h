// SPDX-License-Identifier: Apache-2.0
// The system's `tar` as a child at the other end of a pipe. An unpacked archive comes from a
// sandbox and is hostile: unpack into a fresh directory, and call checkUnpacked() afterwards. One
// thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::cli {

class Tar {
 public:
  // Packs the content of `dir`; or unpacks into `dir`, with this user as the owner of everything,
  // and without names leading out of `dir`. kUnsupported without a tar. Unpacking ignores SIGPIPE
  // in this process.
  static Result<Tar> packing(const std::string& dir);
  static Result<Tar> unpacking(const std::string& dir);

  Tar(const Tar&) = delete;
  Tar& operator=(const Tar&) = delete;
  Tar(Tar&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)),
        doing_(std::move(other.doing_)),
        pipe_(std::move(other.pipe_)) {}
  Tar& operator=(Tar&&) = delete;
  ~Tar();  // kills tar, unless ended

  // The archive's next bytes; "" after a successful end.
  Result<std::string> read();
  Result<> write(std::string_view bytes);
  // No more bytes; its end.
  Result<> finish();

 private:
  Tar(std::string doing, pid_t pid, Fd pipe)
      : pid_(pid), doing_(std::move(doing)), pipe_(std::move(pipe)) {}
  pid_t pid_;
  std::string doing_;
  Fd pipe_;
};

// kInvalid when there is anything beneath `dir` but regular files, directories and links: as root,
// tar makes devices too. Takes away set-user-ID and its kind.
Result<> checkUnpacked(const std::string& dir);

}  // namespace cloister::cli
