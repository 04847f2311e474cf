// SPDX-License-Identifier: Apache-2.0
// Files and directories that have their name only once they are whole: made beside it under another
// one, removed again unless kept.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::cli {

class FreshFile {
 public:
  // For `path`, a file or nothing; a link is followed to the file it names. It gets `mode`, as far
  // as the umask allows.
  static Result<FreshFile> make(const std::string& path, mode_t mode);
  FreshFile(const FreshFile&) = delete;
  FreshFile& operator=(const FreshFile&) = delete;
  FreshFile(FreshFile&& other) noexcept
      : fd_(std::move(other.fd_)),
        path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, {})) {}
  FreshFile& operator=(FreshFile&&) = delete;
  ~FreshFile();

  [[nodiscard]] int fd() const { return fd_.get(); }
  Result<> keep();  // in the place of what is there

 private:
  FreshFile() = default;
  Fd fd_;
  std::string path_;
  std::string temporary_;
};

class FreshDirectory {
 public:
  // For `path`: nothing, or an empty directory, which stays the one it is. kConflict else.
  static Result<FreshDirectory> make(const std::string& path);
  FreshDirectory(const FreshDirectory&) = delete;
  FreshDirectory& operator=(const FreshDirectory&) = delete;
  FreshDirectory(FreshDirectory&& other) noexcept
      : path_(std::move(other.path_)),
        temporary_(std::exchange(other.temporary_, {})),
        there_(other.there_) {}
  FreshDirectory& operator=(FreshDirectory&&) = delete;
  ~FreshDirectory();

  [[nodiscard]] const std::string& path() const { return temporary_; }
  Result<> keep();

 private:
  FreshDirectory() = default;
  std::string path_;
  std::string temporary_;
  bool there_ = false;  // `path_`, with the temporary one inside
};

}  // namespace cloister::cli
