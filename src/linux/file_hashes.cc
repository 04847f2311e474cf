// SPDX-License-Identifier: Apache-2.0
#include "linux/file_hashes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "base/crypto.h"
#include "linux/tree_digest.h"

namespace cloister::linux {

struct FileHashes::File {
  Fd fd;
  std::string path;
  bool uncached = false;  // no page was in memory
  bool begun = false;     // guarded by FileHashes::mutex_, as is `hashed`
  std::optional<Result<Hashed>> hashed;
};

namespace {

void readAhead(int fd, off_t from) {
  ::posix_fadvise(fd, from, kFileAhead, POSIX_FADV_WILLNEED);
}

// Whether no page of the file is in memory: cachestat(2), since Linux 6.5. False if unknown.
bool isUncached(int fd) {
  constexpr long kCachestat = 451;  // on all architectures; glibc 2.36 has no name for the number
  struct {
    uint64_t offset = 0;
    uint64_t length = 0;  // to the end
  } range;
  struct {
    uint64_t cached = 0, dirty = 0, writeback = 0, evicted = 0, recently_evicted = 0;
  } pages;
  return ::syscall(kCachestat, fd, &range, &pages, 0U) == 0 && pages.cached == 0;
}

Result<FileHashes::Hashed> hashFile(int fd, const std::string& path) {
  base::Sha256 hash;
  std::array<char, size_t{64} << 10> chunk;
  struct stat begun{};
  if (::fstat(fd, &begun) != 0) return failErrno("looking at " + path);
  off_t done = 0;
  // Read only up to the initial size: a growing file changes its stamp, and is read again later.
  for (off_t asked = kFileAhead; done < begun.st_size;) {
    if (done + kFileAhead / 2 >= asked) {
      readAhead(fd, asked);  // near the end the call has no effect
      asked += kFileAhead;
    }
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failErrno("reading " + path);
    if (n == 0) break;
    hash.update({chunk.data(), static_cast<size_t>(n)});
    done += n;
  }
  struct stat status{};
  if (::fstat(fd, &status) != 0) return failErrno("looking at " + path);
  return FileHashes::Hashed{hash.hex(), stampOf(status), static_cast<uint64_t>(done)};
}

Result<FileHashes::Hashed> hashOnce(FileHashes::File& file) {
  auto hashed = hashFile(file.fd.get(), file.path);
  // Gigabytes of rarely used files would push used pages out of memory. Reusing the same pages is
  // also faster than filling more.
  if (file.uncached) ::posix_fadvise(file.fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  file.fd.reset();
  return hashed;
}

}  // namespace

FileHashes::FileHashes(unsigned threads) {
  for (unsigned i = 0; i < threads; ++i)
    threads_.emplace_back([this] { work(); });
}

FileHashes::~FileHashes() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    waiting_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_)
    thread.join();
}

std::shared_ptr<FileHashes::File> FileHashes::add(Fd fd, std::string path) {
  auto file = std::make_shared<File>();
  file->uncached = isUncached(fd.get());
  readAhead(fd.get(), 0);
  file->fd = std::move(fd);
  file->path = std::move(path);
  if (threads_.empty()) return file;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(file);
  }
  changed_.notify_all();
  return file;
}

Result<FileHashes::Hashed> FileHashes::take(File& file) {
  std::unique_lock lock(mutex_);
  if (!std::exchange(file.begun, true)) {
    lock.unlock();
    return hashOnce(file);
  }
  changed_.wait(lock, [&] { return file.hashed.has_value(); });
  return *std::move(file.hashed);
}

void FileHashes::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (ending_) return;
    const std::shared_ptr<File> file = std::move(waiting_.front());
    waiting_.pop_front();
    if (std::exchange(file->begun, true)) continue;
    lock.unlock();
    auto hashed = hashOnce(*file);
    lock.lock();
    file->hashed = std::move(hashed);
    changed_.notify_all();
  }
}

}  // namespace cloister::linux
