// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/image.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <utility>

#include "base/crypto.h"
#include "base/file.h"
#include "linux/message.h"
#include "linux/tree_digest.h"
#include "sandbox/microvm/archive.h"
#include "wire/guest.h"

namespace cloister::runtime::microvm {
namespace {

constexpr size_t kMaxKernel = size_t{64} << 20;

// The initrd: the image's modules, and the node's own programs.
Result<std::string> makeInitrd(const MicrovmConfig& config, const Tools& tools) {
  namespace names = wire::guest;
  std::string modules = TRY(base::readFile(config.image + "/modules.cpio", kMaxKernel));
  return std::move(modules) + makeArchive({{names::kInit, S_IFREG | 0555, tools.guest},
                                           {names::kRunner, S_IFREG | 0555, tools.runner},
                                           {names::kFilter, S_IFREG | 0444, tools.filter}});
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
               .networked = networked,
               .tools = tools,
               .disk = TRY(openWhole(path)),
               .digest = its_digest};
}

Result<Image> Image::withKernel(const std::string& path) const {
  const std::string bytes = TRY(base::readFile(path, kMaxKernel));
  return Image{.kernel = TRY(linux::sealedData(bytes)),
               .initrd = TRY(another(initrd)),
               .initrd_bytes = initrd_bytes,
               .networked = networked,
               .tools = tools,
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
  return linux::sealedData(
      initrd_bytes + makeArchive({{names::kWalls, S_IFREG | 0444, walls},
                                  {names::kWallsProgram, S_IFREG | 0555, tools.walls_program}}));
}

Result<Tools> readTools(const MicrovmConfig& config) {
  const auto read = [&config](const char* name) {
    return base::readFile(config.programs + "/" + name);
  };
  const linux::SeccompProgram seccomp = TRY(linux::loadSeccomp(config.policies + "/sandbox.json"));
  return Tools{.guest = TRY(read("cloister-guest")),
               .runner = TRY(read("cloister-runner")),
               .filter = std::string(bytesOf(seccomp.filter)),
               .walls_program = TRY(read("cloister-walls"))};
}

MoreFiles shownFiles(const Tools& tools, const std::string& walls) {
  namespace names = wire::guest;
  using Op = MountStep::Op;
  const std::string top = std::string(kShown).substr(sizeof "dev");
  MoreFiles more;
  const auto directory = [&](const std::string& name, std::string_view why) {
    more.steps.push_back({.op = Op::kDirectory, .target = top + name, .why = why});
  };
  const auto file = [&](const std::string& name, std::string_view content, mode_t mode) {
    more.bytes += content.size();
    more.steps.push_back({.op = Op::kFile,
                          .target = top + "/" + name,
                          .why = "what the guest finds",
                          .mode = mode,
                          .content = std::string(content)});
  };
  directory("", "the machine's first root");
  for (const char* name : {"dev", "proc", "sys", "cgroup", "run", names::kModules, "root"})
    directory(std::string("/") + name, "where the guest mounts");
  // Covered by the sandbox's root, if any.
  for (const char* name : {"dev", "home", "home/user", "proc", "tmp", "workspace"})
    directory(std::string("/root/") + name, "where the guest mounts");
  file(names::kGuest, tools.guest, 0555);
  file(names::kRunner, tools.runner, 0555);
  file(names::kFilter, tools.filter, 0444);
  if (walls.empty()) return more;
  file(names::kWalls, walls, 0444);
  file(names::kWallsProgram, tools.walls_program, 0555);
  return more;
}

Result<Image> noImage(const MicrovmConfig& config) {
  return Image{.kernel = TRY(linux::sealedData("")),
               .initrd = TRY(linux::sealedData("")),
               .initrd_bytes = {},
               .tools = TRY(readTools(config)),
               .disk = TRY(linux::sealedData("")),
               .digest = {}};
}

Result<Image> openImage(const MicrovmConfig& config) {
  Image image;
  image.tools = TRY(readTools(config));
  image.initrd_bytes = TRY(makeInitrd(config, image.tools));
  image.networked = archiveHas(image.initrd_bytes, wire::guest::kNetworkModules);
  image.initrd = TRY(linux::sealedData(image.initrd_bytes));
  image.disk = TRY(openWhole(config.image + "/root.squashfs"));
  image.digest = TRY(digestOf(image.disk));
  return image;
}

}  // namespace cloister::runtime::microvm
