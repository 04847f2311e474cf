// SPDX-License-Identifier: Apache-2.0
#include "store/sql/checkpoint_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

namespace cloister::store {
namespace {

constexpr size_t kMaxFile = size_t{256} << 20;
constexpr size_t kMaxLine = 512;

// Cuts the file behind its last complete line.
Result<> dropUnfinishedLine(int fd, const std::string& path) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return failErrno("looking at " + path);
  char tail[kMaxLine];
  const off_t start = std::max<off_t>(0, info.st_size - static_cast<off_t>(sizeof tail));
  const ssize_t n = ::pread(fd, tail, sizeof tail, start);
  if (n < 0) return failErrno("reading " + path);
  const std::string_view read(tail, static_cast<size_t>(n));
  if (read.empty() || read.back() == '\n') return {};
  const size_t end = read.rfind('\n');
  if (end == std::string_view::npos && start > 0) {
    return fail(Code::kInternal, "reading " + path + ": its last line is too long");
  }
  base::log(base::Level::kWarn, "audit checkpoint file had an unfinished line", {{"file", path}});
  const off_t keep = end == std::string_view::npos ? 0 : start + static_cast<off_t>(end) + 1;
  if (::ftruncate(fd, keep) != 0) return failErrno("repairing " + path);
  return {};
}

}  // namespace

Result<std::vector<Checkpoint>> readCheckpoints(const std::string& path) {
  auto text = base::readFile(path, kMaxFile);
  if (!text && text.error().code == Code::kNotFound) return std::vector<Checkpoint>{};
  if (!text) return std::unexpected(text.error());
  return model::parseCheckpoints(*text, path);
}

Result<> appendCheckpoint(const std::string& path, const Checkpoint& checkpoint) {
  const Fd fd(::open(path.c_str(), O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
  if (!fd) return failErrno("opening " + path);
  TRY(dropUnfinishedLine(fd.get(), path));
  const std::string line = base::toJson(toJsonObject(checkpoint)) + "\n";
  const ssize_t n = ::write(fd.get(), line.data(), line.size());
  if (n < 0) return failErrno("writing " + path);
  if (n != static_cast<ssize_t>(line.size())) {
    return fail(Code::kNoSpace, "writing " + path + ": only part of a line was taken");
  }
  if (base::syncFile(fd.get()) != 0) return failErrno("syncing " + path);
  return {};
}

}  // namespace cloister::store
