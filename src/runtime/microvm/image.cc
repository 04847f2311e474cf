// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "base/crypto.h"
#include "base/file.h"
#include "linux/message.h"
#include "linux/tree_digest.h"
#include "runtime/microvm/archive.h"
#include "wire/guest.h"

namespace cloister::runtime::microvm {
namespace {

constexpr size_t kMaxKernel = size_t{64} << 20;

// The image's modules, and what the node brings itself.
Result<std::string> makeInitrd(const MicrovmConfig& config) {
  namespace names = wire::guest;
  std::string modules = TRY(base::readFile(config.image + "/modules.cpio", kMaxKernel));
  const std::string guest = TRY(base::readFile(config.programs + "/cloister-guest"));
  const std::string runner = TRY(base::readFile(config.programs + "/cloister-runner"));
  const linux::SeccompProgram seccomp = TRY(linux::loadSeccomp(config.policies + "/sandbox.json"));
  return std::move(modules) +
         makeArchive({{names::kInit, S_IFREG | 0555, guest},
                      {names::kRunner, S_IFREG | 0555, runner},
                      {names::kFilter, S_IFREG | 0444, bytesOf(seccomp.filter)}});
}

}  // namespace

Result<std::string> digestOf(const Fd& file) {
  base::Sha256 sum;
  std::vector<char> bytes(size_t{1} << 20);
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(file.get(), bytes.data(), bytes.size(), at);
    if (n < 0) return failErrno("computing a digest");
    if (n == 0) return "sha256:" + sum.hex();
    sum.update({bytes.data(), static_cast<size_t>(n)});
    at += n;
  }
}

Result<Fd> another(const Fd& file) {
  Fd same(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (!same) return failErrno("keeping the machine's image");
  return same;
}

Result<Fd> openWhole(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failErrno("opening " + path);
  return file;
}

std::string stampOf(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 ? linux::stampOf(status) : "";
}

std::string_view bytesOf(const std::vector<sock_filter>& filter) {
  const auto bytes = std::as_bytes(std::span(filter));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Result<Image> Image::withDisk(const std::string& path, const std::string& its_digest) const {
  return Image{.kernel = TRY(another(kernel)),
               .initrd = TRY(another(initrd)),
               .initrd_bytes = initrd_bytes,
               .walls_program = walls_program,
               .disk = TRY(openWhole(path)),
               .digest = its_digest};
}

Result<Image> Image::withKernel(const std::string& path) const {
  const std::string bytes = TRY(base::readFile(path, kMaxKernel));
  return Image{.kernel = TRY(linux::sealedData(bytes)),
               .initrd = TRY(another(initrd)),
               .initrd_bytes = initrd_bytes,
               .walls_program = walls_program,
               .disk = TRY(another(disk)),
               .digest = digest};
}

Result<> Image::readableByAll() const {
  struct stat status{};
  if (::fstat(disk.get(), &status) != 0) return failErrno("looking at the image");
  if ((status.st_mode & S_IROTH) != 0) return {};
  return fail(
      Code::kUnsupported,
      "the image's root may not be read by all, and this VMM opens it as nobody: chmod a+r");
}

Result<Fd> Image::initrdWith(const std::string& walls) const {
  namespace names = wire::guest;
  return linux::sealedData(initrd_bytes +
                           makeArchive({{names::kWalls, S_IFREG | 0444, walls},
                                        {names::kWallsProgram, S_IFREG | 0555, walls_program}}));
}

Result<Image> openImage(const MicrovmConfig& config) {
  Image image;
  image.initrd_bytes = TRY(makeInitrd(config));
  image.initrd = TRY(linux::sealedData(image.initrd_bytes));
  image.walls_program = TRY(base::readFile(config.programs + "/cloister-walls"));
  image.disk = TRY(openWhole(config.image + "/root.squashfs"));
  image.digest = TRY(digestOf(image.disk));
  return image;
}

}  // namespace cloister::runtime::microvm
