// SPDX-License-Identifier: Apache-2.0
#include "store/anchor.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"

namespace cloister::store {
namespace {

constexpr size_t kMaxAnchor = size_t{2} << 30;
constexpr uint64_t kMaxAnchorLine = 512;
constexpr uint64_t kAllocate = uint64_t{64} << 10;

std::string anchorLine(const Checkpoint& head) {
  return base::toJson(toJsonObject(head)) + "\n";
}

// The whole lines of `text`, except lines with zeros.
std::string wholeLines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(0, end + 1);
    if (line.find('\0') == std::string_view::npos) out += line;
    text.remove_prefix(end + 1);
  }
  return out;
}

Result<> writeAll(int fd, std::string_view bytes, const std::string& path) {
  const ssize_t n = ::write(fd, bytes.data(), bytes.size());
  if (n < 0) return failErrno("writing the audit anchor " + path);
  if (static_cast<size_t>(n) == bytes.size()) return {};
  return fail(Code::kNoSpace, "writing the audit anchor " + path + ": only part was taken");
}

}  // namespace

Result<std::unique_ptr<Anchor>> Anchor::open(Options options) {
  std::unique_ptr<Anchor> made(new Anchor(std::move(options)));
  const Lock lock(made->mutex_);
  TRY(made->openFile());
  return made;
}

Result<> Anchor::openFile() {
  const std::string& path = options_.path;
  fd_ = Fd(::open(path.c_str(), O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600));
  if (!fd_) return failErrno("opening the audit anchor " + path);
  const std::string text = TRY(base::readFile(path, kMaxAnchor));
  size_ = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (size_ != text.size()) {
    base::log(base::Level::kWarn, "audit anchor had an unfinished line", {{"file", path}});
    if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) {
      return failErrno("repairing the audit anchor " + path);
    }
  }
  struct stat info{};
  if (::fstat(fd_.get(), &info) != 0) return failErrno("looking at the audit anchor " + path);
  inode_ = info.st_ino;
  allocated_ = 0;
  rewrite_at_ = options_.max_bytes;
  return syncDirectoryOf(path);
}

// Reserves disk space without a change of the file's size. If the file system cannot reserve space,
// a full disk shows at the write of the line.
Result<> Anchor::allocate() {
  constexpr uint64_t kLines = 8 * kMaxAnchorLine;  // of commits waiting for the disk
  if (allocated_ >= size_ + kLines) return {};
  const auto size = static_cast<off_t>(size_);
  int done = 0;
  do {
    done = ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, size, static_cast<off_t>(kAllocate));
  } while (done != 0 && errno == EINTR);
  const bool refused = done != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO);
  if (refused) return failErrno("making room in the audit anchor " + options_.path);
  allocated_ = size_ + kAllocate;
  return {};
}

Result<> Anchor::reserve() {
  const Lock lock(mutex_);
  if (failed_) {
    TRY(rewrite(failed_));
    failed_.reset();
  }
  return allocate();
}

Result<> Anchor::append(const Checkpoint& head) {
  const Lock lock(mutex_);
  auto added = failed_ ? rewrite(head) : add(head);
  if (added) {
    failed_.reset();
  } else {
    failed_ = head;
  }
  return added;
}

Result<> Anchor::add(const Checkpoint& head) {
  struct stat info{};
  const bool there = ::stat(options_.path.c_str(), &info) == 0 && info.st_ino == inode_;
  if (!there) return rewrite(head);  // removed, or replaced by another file
  const std::string line = anchorLine(head);
  if (size_ + line.size() > rewrite_at_) {
    auto rewritten = rewrite(head);
    if (rewritten) return {};
    rewrite_at_ += options_.max_bytes / 4;
    base::log(base::Level::kWarn, "audit anchor not shortened",
              {{"error", rewritten.error().message}});
  }
  if (auto written = writeAll(fd_.get(), line, options_.path); !written) {
    std::ignore = ::ftruncate(fd_.get(), static_cast<off_t>(size_));
    return written;
  }
  size_ += line.size();
  if (options_.durability == Durability::kPower && options_.sync(fd_.get()) != 0) {
    return failErrno("syncing the audit anchor " + options_.path);
  }
  return {};
}

// Replaces the file by its kept lines and `last`. After a crash either the old file or the whole
// new file is there.
Result<> Anchor::rewrite(const std::optional<Checkpoint>& last) {
  std::vector<Checkpoint> lines = TRY(readAnchor(options_.path));
  if (last) lines.push_back(*last);
  std::string text;
  for (const Checkpoint& line : keptLines(lines, options_.max_bytes))
    text += anchorLine(line);
  TRY(base::writeFileAtomic(options_.path, text, 0600));
  return openFile();
}

Result<std::vector<Checkpoint>> readAnchor(const std::string& path) {
  auto text = base::readFile(path, kMaxAnchor);
  if (!text && text.error().code == Code::kNotFound) return std::vector<Checkpoint>{};
  if (!text) return std::unexpected(text.error());
  return model::parseCheckpoints(wholeLines(*text), "the audit anchor " + path);
}

std::string lossText(const AnchoredLoss& loss) {
  const std::string which = loss.from == loss.to ? "entry " + std::to_string(loss.from) + " is"
                                                 : "entries " + std::to_string(loss.from) + " to " +
                                                       std::to_string(loss.to) + " are";
  return which + " lost: the anchor has the signed head of entry " + std::to_string(loss.to) +
         ", of " + base::formatTime(loss.at);
}

Anchored anchored(const std::vector<Checkpoint>& lines) {
  Anchored out;
  const Checkpoint* before = nullptr;
  for (const Checkpoint& line : lines) {
    const bool same = before != nullptr && before->seq == line.seq && before->hash == line.hash;
    if (before != nullptr && line.seq <= before->seq && !same) {
      out.losses.push_back({.from = line.seq, .to = before->seq, .at = before->at});
      out.heads.erase(out.heads.lower_bound(line.seq), out.heads.end());
    }
    out.heads[line.seq] = line;
    before = &line;
  }
  return out;
}

std::string lossesText(const Anchored& anchored) {
  std::string text;
  for (const AnchoredLoss& loss : anchored.losses)
    text += (text.empty() ? "" : "; ") + lossText(loss);
  return text;
}

std::vector<Checkpoint> keptLines(const std::vector<Checkpoint>& lines, uint64_t max_bytes) {
  std::vector<bool> keep(lines.size(), false);
  uint64_t bytes = 0;
  const auto take = [&](size_t i, uint64_t most) -> bool {
    const uint64_t size = anchorLine(lines[i]).size();
    if (keep[i] || bytes + size > most) return keep[i];
    bytes += size;
    keep[i] = true;
    return true;
  };
  // The newest losses get a quarter, the newest lines the rest of a half.
  for (size_t i = lines.size(); i-- > 1;) {
    if (lines[i].seq > lines[i - 1].seq) continue;
    if (!take(i, max_bytes / 4) || !take(i - 1, max_bytes / 4)) break;
  }
  for (size_t i = lines.size(); i-- > 0;) {
    if (!take(i, max_bytes / 2)) break;
  }
  std::vector<Checkpoint> kept;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (keep[i]) kept.push_back(lines[i]);
  }
  return kept;
}

}  // namespace cloister::store
