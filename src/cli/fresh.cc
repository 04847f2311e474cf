// SPDX-License-Identifier: Apache-2.0
#include "cli/fresh.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include <limits.h>
#include <stdlib.h>

#include "base/file.h"

namespace cloister::cli {
namespace {

mode_t currentUmask() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return mask;
}

// For mkostemp(3): beside `path`, hidden.
std::string patternBeside(const std::string& path) {
  const size_t name = path.rfind('/') + 1;
  constexpr size_t kMostOfName = 100;
  return path.substr(0, name) + "." + path.substr(name, kMostOfName) + ".XXXXXX";
}

std::string withoutSlashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  return path;
}

// The target of a link; the path itself without a link.
std::string resolved(const std::string& path) {
  char real[PATH_MAX];
  struct stat status{};
  const bool link = ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  return link && ::realpath(path.c_str(), real) != nullptr ? real : path;
}

}  // namespace

Result<FreshFile> FreshFile::make(const std::string& path, mode_t mode) {
  FreshFile file;
  file.path_ = resolved(path);
  std::string pattern = patternBeside(file.path_);
  file.fd_.reset(::mkostemp(pattern.data(), O_CLOEXEC));
  if (!file.fd_) return failErrno("creating " + path);
  file.temporary_ = std::move(pattern);
  if (::fchmod(file.fd_.get(), mode & 0777 & ~currentUmask()) != 0) {
    return failErrno("creating " + path);
  }
  return file;
}

FreshFile::~FreshFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Result<> FreshFile::keep() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failErrno("creating " + path_);
  temporary_.clear();
  return {};
}

Result<FreshDirectory> FreshDirectory::make(const std::string& path) {
  FreshDirectory directory;
  directory.path_ = withoutSlashes(path);
  struct stat status{};
  directory.there_ = ::stat(directory.path_.c_str(), &status) == 0;
  if (directory.there_) {
    const bool empty = S_ISDIR(status.st_mode) && TRY(base::listDir(directory.path_)).empty();
    if (!empty) {
      return fail(Code::kConflict,
                  "creating " + path + ": it is there already; remove it, or give another name");
    }
  }
  std::string pattern =
      directory.there_ ? directory.path_ + "/.cp.XXXXXX" : patternBeside(directory.path_);
  if (::mkdtemp(pattern.data()) == nullptr) return failErrno("creating " + path);
  directory.temporary_ = std::move(pattern);
  return directory;
}

FreshDirectory::~FreshDirectory() {
  std::error_code ignored;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, ignored);
}

Result<> FreshDirectory::keep() {
  if (!there_) {
    if (::chmod(temporary_.c_str(), 0777 & ~currentUmask()) != 0 ||
        ::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return failErrno("creating " + path_);
    }
  } else {
    for (const std::string& name : TRY(base::listDir(temporary_))) {
      const std::string to = path_ + "/" + name;
      if (::rename((temporary_ + "/" + name).c_str(), to.c_str()) != 0) {
        return failErrno("creating " + to);
      }
    }
    ::rmdir(temporary_.c_str());
  }
  temporary_.clear();
  return {};
}

}  // namespace cloister::cli
