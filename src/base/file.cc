// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "base/fd.h"

namespace cloister::base {

Result<std::string> readFile(const std::string& path, size_t max_bytes) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return failErrno("opening " + path);
  return readOpenFile(fd.get(), path, max_bytes);
}

Result<std::string> readOpenFile(int fd, const std::string& path, size_t max_bytes) {
  std::string data;
  char chunk[16384];
  for (;;) {
    const ssize_t n = ::read(fd, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno("reading " + path);
    if (n == 0) return data;
    if (data.size() + static_cast<size_t>(n) > max_bytes) {
      return fail(Code::kTooLarge,
                  "reading " + path + ": larger than " + std::to_string(max_bytes) + " bytes");
    }
    data.append(chunk, static_cast<size_t>(n));
  }
}

namespace {

Result<> writeAll(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno("writing " + path);
    data.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

// A name is only found after a loss of power if its directory was synced.
Result<> syncDirectoryOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string directory = parent.empty() ? "." : parent;
  const Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || syncFile(fd.get()) == 0) return {};  // a directory may be writable but not readable
  return failErrno("syncing the directory " + directory);
}

bool the_syncs_are_skipped = false;

}  // namespace

void skipSyncs() {
  the_syncs_are_skipped = true;
}

bool syncsSkipped() {
  return the_syncs_are_skipped;
}

int syncFile(int fd) {
  return syncsSkipped() ? 0 : ::fsync(fd);
}

int syncData(int fd) {
  return syncsSkipped() ? 0 : ::fdatasync(fd);
}

Result<> writeFileAtomic(const std::string& path, std::string_view data, mode_t mode) {
  std::string temporary = path + ".XXXXXX";
  Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd) return failErrno("creating a file beside " + path);
  auto written = [&]() -> Result<> {
    TRY(writeAll(fd.get(), data, path));
    if (::fchmod(fd.get(), mode) != 0) return failErrno("setting the mode of " + path);
    if (syncFile(fd.get()) != 0) return failErrno("syncing " + path);
    if (::rename(temporary.c_str(), path.c_str()) != 0) return failErrno("renaming to " + path);
    return syncDirectoryOf(path);
  }();
  if (!written) ::unlink(temporary.c_str());
  return written;
}

Result<std::vector<std::string>> listDir(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator at(path, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error))
    names.push_back(at->path().filename().string());
  if (error) return failErrno("listing " + path, error.value());
  std::ranges::sort(names);
  return names;
}

Result<> makeDirs(const std::string& path, mode_t mode) {
  for (size_t at = 1; at <= path.size(); ++at) {
    at = path.find('/', at);
    if (at == std::string::npos) at = path.size();
    const std::string part = path.substr(0, at);
    if (::mkdir(part.c_str(), at == path.size() ? mode : 0755) != 0 && errno != EEXIST) {
      return failErrno("making directory " + part);
    }
  }
  return {};
}

std::string programDir() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path().string();
}

std::string shareDir() {
  if (const char* set = ::getenv("CLOISTER_SHARE"); set != nullptr && *set != 0) return set;
  const std::filesystem::path programs = programDir();
  std::filesystem::path prefix = programs.parent_path();
  if (prefix.filename() == "lib" && programs.filename() == "cloister")
    prefix = prefix.parent_path();
  return prefix / "share" / "cloister";
}

std::string defaultStateDir() {
  if (::geteuid() == 0) return "/var/lib/cloister";
  if (const char* set = ::getenv("XDG_STATE_HOME"); set != nullptr && *set == '/') {
    return std::string(set) + "/cloister";
  }
  const char* home = ::getenv("HOME");
  return std::string(home != nullptr ? home : "/") + "/.local/state/cloister";
}

}  // namespace cloister::base
