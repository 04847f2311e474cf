// SPDX-License-Identifier: Apache-2.0
// Blobs in a directory of ours: dir/tmp/<random> while written, then renamed to
// dir/<2 digits>/<62 digits>. A crash leaves files in tmp only, which opening removes.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "artifacts/blobs.h"
#include "base/crypto.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/id.h"

namespace cloister::artifacts {
namespace {

constexpr size_t kDigestDigits = 64;
constexpr mode_t kDirMode = 0700;
constexpr mode_t kFileMode = 0600;

bool isDigest(std::string_view text) {
  return text.size() == kDigestDigits &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

Result<> syncDir(const std::string& path) {
  const base::Fd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir || ::fsync(dir.get()) != 0) return failErrno("syncing " + path);
  return {};
}

std::string dirOf(const std::string& root, std::string_view digest) {
  return root + "/" + std::string(digest.substr(0, 2));
}

std::string pathOf(const std::string& root, std::string_view digest) {
  return dirOf(root, digest) + "/" + std::string(digest.substr(2));
}

class LocalWriter : public BlobWriter {
 public:
  LocalWriter(std::string root, bool sync, std::string temporary, base::Fd file)
      : root_(std::move(root)),
        sync_(sync),
        temporary_(std::move(temporary)),
        file_(std::move(file)) {}
  LocalWriter(const LocalWriter&) = delete;
  LocalWriter& operator=(const LocalWriter&) = delete;
  ~LocalWriter() override {
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Result<> write(std::string_view bytes) override {
    if (!file_) return fail(Code::kInternal, "writing a blob: it is finished");
    hash_.update(bytes);
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_.get(), bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return broken("writing a blob");
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
  }

  Result<std::string> finish() override {
    if (!file_) return fail(Code::kInternal, "finishing a blob: it is finished");
    std::string digest = hash_.hex();
    if (sync_ && ::fsync(file_.get()) != 0) return broken("syncing a blob");
    file_.reset();
    TRY(base::makeDirs(dirOf(root_, digest), kDirMode));
    // The same content may be there already: replacing it by itself changes nothing.
    if (::rename(temporary_.c_str(), pathOf(root_, digest).c_str()) != 0) {
      return failErrno("naming a blob");
    }
    temporary_.clear();
    if (sync_) {
      TRY(syncDir(dirOf(root_, digest)));
      TRY(syncDir(root_));
    }
    return digest;
  }

 private:
  // After a failed write or fsync the file's content is unknown: it must not be finished.
  std::unexpected<Error> broken(std::string_view doing) {
    const int error = errno;
    file_.reset();
    return failErrno(doing, error);
  }

  std::string root_;
  bool sync_;
  std::string temporary_;  // "" once it has its name
  base::Fd file_;
  base::Sha256 hash_;
};

class LocalBlobs : public Blobs {
 public:
  LocalBlobs(std::string root, bool sync) : root_(std::move(root)), sync_(sync) {}

  Result<std::unique_ptr<BlobWriter>> create() override {
    const std::string temporary = root_ + "/tmp/" + base::randomHex(16);
    base::Fd file(
        ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
    if (!file) return failErrno("making a blob");
    return std::make_unique<LocalWriter>(root_, sync_, temporary, std::move(file));
  }

  Result<std::string> read(const std::string& sha256, uint64_t offset, size_t length) override {
    const base::Fd file = TRY(open(sha256));
    const uint64_t size = TRY(sizeOf(file));
    std::string bytes;
    if (offset >= size) return bytes;
    bytes.resize(std::min<uint64_t>(length, size - offset));
    size_t got = 0;
    while (got < bytes.size()) {
      const ssize_t n = ::pread(file.get(), bytes.data() + got, bytes.size() - got,
                                static_cast<off_t>(offset + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return failErrno("reading blob " + sha256);
      if (n == 0) return fail(Code::kInternal, "reading blob " + sha256 + ": cut short");
      got += static_cast<size_t>(n);
    }
    return bytes;
  }

  Result<uint64_t> size(const std::string& sha256) override { return sizeOf(TRY(open(sha256))); }

  Result<> remove(const std::string& sha256) override {
    if (!isDigest(sha256)) return {};
    if (::unlink(pathOf(root_, sha256).c_str()) == 0 || errno == ENOENT) return {};
    return failErrno("removing blob " + sha256);
  }

 private:
  [[nodiscard]] Result<base::Fd> open(const std::string& sha256) const {
    // A digest that is not one would be a path of the caller's choice.
    if (!isDigest(sha256)) return fail(Code::kNotFound, "no such blob");
    base::Fd file(::open(pathOf(root_, sha256).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file && errno == ENOENT) return fail(Code::kNotFound, "no such blob");
    if (!file) return failErrno("opening blob " + sha256);
    return file;
  }

  static Result<uint64_t> sizeOf(const base::Fd& file) {
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) return failErrno("sizing a blob");
    return static_cast<uint64_t>(status.st_size);
  }

  std::string root_;
  bool sync_;
};

}  // namespace

Result<std::unique_ptr<Blobs>> openLocalBlobs(const std::string& dir,
                                              model::Durability durability) {
  TRY(base::makeDirs(dir, kDirMode));
  const std::string temporary = dir + "/tmp";
  std::error_code error;
  std::filesystem::remove_all(temporary, error);
  if (error) return failErrno("removing leftovers in " + temporary, error.value());
  TRY(base::makeDirs(temporary, kDirMode));
  return std::make_unique<LocalBlobs>(dir, durability == model::Durability::kPower);
}

}  // namespace cloister::artifacts
