// SPDX-License-Identifier: Apache-2.0
// Files and directories that get their name only once complete: made beside the name under a
// temporary name, and removed again unless kept.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::cli {

class FreshFile {
 public:
  // For `path`, a file or nothing; a link is followed to its target. The file gets `mode`, as far
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
  Result<> keep();  // replaces the present file

 private:
  FreshFile() = default;
  Fd fd_;
  std::string path_;
  std::string temporary_;
};

class FreshDirectory {
 public:
  // For `path`: nothing, or an empty directory, which is kept and filled. kConflict otherwise.
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
  bool there_ = false;  // `path_` exists, with the temporary directory inside
};

}  // namespace cloister::cli
