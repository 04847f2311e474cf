// SPDX-License-Identifier: Apache-2.0
#include "linux/encrypted_disk.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fscrypt.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <vector>

#include "base/file.h"
#include "linux/mounts.h"
#include "linux/process.h"

namespace cloister::linux {
namespace {

constexpr uint64_t kBlock = 4096;
constexpr uint64_t kGroupBlocks = 32'768;  // of a block group: as many as a block has bits
constexpr uint64_t kInodeBytes = 256;
constexpr uint64_t kInodesInBlock = kBlock / kInodeBytes;
constexpr uint64_t kOwnInodes = 13;           // 10 reserved, /, lost+found, scratch
constexpr uint64_t kMostSurplus = 1'000'000;  // inodes used up within seconds
constexpr size_t kKeyBytes = 64;              // AES-256-XTS
constexpr uint32_t kDropAll = 2;              // EXT4_GOING_FLAGS_NOLOGFLUSH
constexpr unsigned long kShutDown = _IOR('X', 125, uint32_t);  // FS_IOC_SHUTDOWN
constexpr char kFeatures[] =
    "none,ext_attr,dir_index,filetype,extent,flex_bg,large_file,huge_file,dir_nlink,extra_isize,"
    "metadata_csum,sparse_super2,encrypt";

std::string pathOf(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

uint64_t groupsOf(const DiskShape& shape) {
  return std::max<uint64_t>(1, shape.bytes / kBlock / kGroupBlocks);
}

// A whole number of blocks of inodes for each group, rounded down.
uint64_t inodesToMake(const DiskShape& shape) {
  const uint64_t each = (shape.inodes + kOwnInodes) / groupsOf(shape);
  return groupsOf(shape) * std::max(kInodesInBlock, each / kInodesInBlock * kInodesInBlock);
}

[[noreturn]] void becomeMke2fs(int file, int said, const DiskShape& shape) {
  constexpr int kFile = 3;
  if (!moveFd(said, 2) || !moveFd(file, kFile)) ::_exit(1);
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0 || !moveFd(null, 0) || !moveFd(null, 1) || !closeFrom(kFile + 1)) ::_exit(1);
  const std::vector<std::string> argv = {
      "mke2fs",
      "-q",
      "-F",
      "-b",
      std::to_string(kBlock),
      "-I",
      std::to_string(kInodeBytes),
      "-m",
      "0",
      "-N",
      std::to_string(inodesToMake(shape)),
      "-O",
      kFeatures,
      "-E",
      "lazy_itable_init=1,assume_storage_prezeroed=1,nodiscard,num_backup_sb=0",
      pathOf(kFile)};
  const Error error =
      executeInPath(argv, {"PATH=/usr/sbin:/sbin:/usr/bin:/bin", "MKE2FS_CONFIG=/dev/null"});
  ::dprintf(2, "%s", error.message.c_str());
  ::_exit(1);
}

Result<> runMke2fs(int file, const DiskShape& shape) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  const Fd heard(ends[0]);
  Fd said(ends[1]);
  const Cloned child = TRY(cloneProcess(0));
  if (child.pid == 0) becomeMke2fs(file, said.get(), shape);
  said.reset();
  std::string text;
  char buffer[512];
  for (ssize_t n = 0; (n = ::read(heard.get(), buffer, sizeof buffer)) > 0;) {
    if (text.size() < sizeof buffer) text.append(buffer, static_cast<size_t>(n));
  }
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(Code::kInternal, "mke2fs: " + text);
}

// Copies all data, without the holes.
Result<> copyData(int from, int to) {
  std::array<char, 65'536> buffer;
  for (off_t at = 0; (at = ::lseek(from, at, SEEK_DATA)) >= 0;) {
    const off_t end = ::lseek(from, at, SEEK_HOLE);
    while (at < end) {
      const size_t want = std::min<size_t>(buffer.size(), static_cast<size_t>(end - at));
      const ssize_t n = ::pread(from, buffer.data(), want, at);
      if (n <= 0 || ::pwrite(to, buffer.data(), static_cast<size_t>(n), at) != n) {
        return failErrno("writing a file system");
      }
      at += n;
    }
  }
  return errno == ENXIO ? Result<>() : failErrno("reading a file system");
}

// Checks that `bytes` fit into the free space and leave enough.
Result<> checkSpace(uint64_t available, uint64_t bytes, uint64_t keep_free) {
  if (available >= keep_free && available - keep_free >= bytes) return {};
  return fail(Code::kNoSpace, "only " + std::to_string(available >> 20) +
                                  " MiB are free where it would be, of which " +
                                  std::to_string(keep_free >> 20) + " MiB are to stay free");
}

Result<uint64_t> availableIn(int directory) {
  struct statfs space{};
  if (::fstatfs(directory, &space) != 0) return failErrno("statfs");
  return space.f_bavail * static_cast<uint64_t>(space.f_bsize);
}

Result<Fd> makeFile(int directory, uint64_t bytes, uint64_t keep_free) {
  const uint64_t before = TRY(availableIn(directory));
  TRY(checkSpace(before, bytes, keep_free));
  Fd file(::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return failErrno("making a file without a name");
  if (::fallocate(file.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    return failErrno("taking " + std::to_string(bytes >> 20) + " MiB of disk");
  }
  // Check again: other processes may have taken space meanwhile.
  const uint64_t after = TRY(availableIn(directory));
  TRY(checkSpace(after + bytes, bytes, keep_free));
  return file;
}

// A free loop device for `file`, removed by the kernel on last close.
struct Loop {
  std::string path;
  std::string backing;
  Fd device;
};

Result<Loop> attachLoop(int file) {
  const Fd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) return failErrno("opening /dev/loop-control");
  loop_config config{};
  config.fd = static_cast<uint32_t>(file);
  config.block_size = kBlock;
  config.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
  for (int attempt = 0; attempt < 64; ++attempt) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return failErrno("asking for a loop device");
    const std::string name = "loop" + std::to_string(number);
    Loop loop{"/dev/" + name, {}, Fd(::open(("/dev/" + name).c_str(), O_RDWR | O_CLOEXEC))};
    if (!loop.device) return failErrno("opening " + loop.path);
    if (::ioctl(loop.device.get(), LOOP_CONFIGURE, &config) == 0) {
      loop.backing = TRY(base::readFile("/sys/block/" + name + "/loop/backing_file"));
      return loop;
    }
    if (errno != EBUSY) return failErrno("attaching " + loop.path);  // another was sooner
  }
  return fail(Code::kQuota, "attaching a loop device: others take all of them");
}

Result<Fd> openDirectory(int at, const char* name) {
  Fd fd(::openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd) return failErrno(std::string("opening ") + name);
  return fd;
}

Result<Fd> makeDirectory(int at, const char* name, mode_t mode) {
  if (::mkdirat(at, name, mode) != 0) return failErrno(std::string("making ") + name);
  return openDirectory(at, name);
}

bool exists(const char* path) {
  return ::access(path, F_OK) == 0;
}

}  // namespace

DiskLack encryptedDiskLack(const std::string& directory) {
  if (::geteuid() != 0) return {"only root can mount one", "run cloister-node as root"};
  if (!exists("/sys/fs/ext4/features/encryption")) {
    return {"this kernel has no ext4 with encryption, or has not loaded it",
            "modprobe ext4, or boot a kernel with CONFIG_FS_ENCRYPTION (Linux 5.4)"};
  }
  if (::access("/dev/loop-control", R_OK | W_OK) != 0) {
    return {"no /dev/loop-control", "modprobe loop; give a container its loop devices"};
  }
  if (!exists("/usr/sbin/mke2fs") && !exists("/sbin/mke2fs")) {
    return {"no mke2fs", "apt-get install e2fsprogs"};
  }
  const Fd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) {
    return {"no file without a name in " + directory + ": " + std::strerror(errno),
            "set workspace.disk.directory to a directory on ext4 or xfs"};
  }
  return {};
}

Result<> checkShape(const DiskShape& shape) {
  if (shape.inodes > shape.bytes / 2 / kInodeBytes) {
    return fail(Code::kUnsupported,
                std::to_string(shape.inodes) + " inodes take more than half of it; ask for fewer");
  }
  const uint64_t least = groupsOf(shape) * kInodesInBlock;
  if (least <= shape.inodes + kMostSurplus) return {};
  return fail(Code::kUnsupported, "it has " + std::to_string(least) +
                                      " inodes at least; ask for no fewer than " +
                                      std::to_string(least - kMostSurplus));
}

Result<Fd> formatDisk(const DiskShape& shape) {
  TRY(checkShape(shape));
  Fd file(::memfd_create("disk", MFD_CLOEXEC));
  if (!file) return failErrno("memfd_create");
  if (::ftruncate(file.get(), static_cast<off_t>(shape.bytes / kBlock * kBlock)) != 0) {
    return failErrno("ftruncate");
  }
  TRY(runMke2fs(file.get(), shape));
  return file;
}

Result<EncryptedDisk> EncryptedDisk::make(int directory, const DiskShape& shape, int format,
                                          const DiskOptions& options) {
  EncryptedDisk disk;
  disk.file_ = TRY(makeFile(directory, shape.bytes / kBlock * kBlock, options.keep_free));
  TRY(copyData(format, disk.file_.get()));
  const Loop loop = TRY(attachLoop(disk.file_.get()));
  disk.device_ = loop.path;
  disk.backing_ = loop.backing;
  // Synced data need not survive the machine, so use no write barriers.
  const MountOptions mount = {
      {"noinit_itable", ""}, {"nodiscard", ""}, {"nobarrier", ""}, {"errors", "remount-ro"}};
  disk.mount_ = TRY(newFilesystem("ext4", loop.path, mount, kNoSuid | kNoDev | options.attributes));
  disk.root_ = TRY(openDirectory(disk.mount_.get(), "."));
  const Fd scratch = TRY(makeDirectory(disk.root_.get(), kEncryptedDirectory, 0755));
  TRY(disk.encrypt(scratch.get()));
  if (::fchown(scratch.get(), options.uid, options.gid) != 0) return failErrno("chown");
  TRY(disk.bound(shape.inodes));
  return disk;
}

Result<> EncryptedDisk::encrypt(int directory) {
  alignas(fscrypt_add_key_arg) unsigned char request[sizeof(fscrypt_add_key_arg) + kKeyBytes] = {};
  auto* const key = reinterpret_cast<fscrypt_add_key_arg*>(request);
  unsigned char* const raw = request + sizeof(fscrypt_add_key_arg);
  key->key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
  key->raw_size = kKeyBytes;
  if (::getrandom(raw, kKeyBytes, 0) != static_cast<ssize_t>(kKeyBytes)) {
    return failErrno("getrandom");
  }
  const int added = ::ioctl(root_.get(), FS_IOC_ADD_ENCRYPTION_KEY, key);
  const int error = errno;
  ::explicit_bzero(raw, kKeyBytes);
  if (added != 0) return failErrno("giving the kernel a key", error);
  std::memcpy(key_, key->key_spec.u.identifier, sizeof key_);
  fscrypt_policy_v2 policy{};
  policy.version = FSCRYPT_POLICY_V2;
  policy.contents_encryption_mode = FSCRYPT_MODE_AES_256_XTS;
  policy.filenames_encryption_mode = FSCRYPT_MODE_AES_256_CTS;
  policy.flags = FSCRYPT_POLICY_FLAGS_PAD_32;
  std::memcpy(policy.master_key_identifier, key_, sizeof key_);
  if (::ioctl(directory, FS_IOC_SET_ENCRYPTION_POLICY, &policy) != 0) {
    return failErrno("encrypting a directory");
  }
  return {};
}

// Uses up the inodes beyond the requested number: a small number on a large disk.
Result<> EncryptedDisk::bound(uint64_t inodes) const {
  struct statfs space{};
  if (::fstatfs(root_.get(), &space) != 0) return failErrno("statfs");
  if (space.f_ffree < inodes) return {};
  const uint64_t surplus = space.f_ffree - inodes;
  const Fd kept = TRY(makeDirectory(root_.get(), "surplus", 0700));
  for (uint64_t i = 0; i < surplus; ++i) {
    const Fd one(::openat(kept.get(), std::to_string(i).c_str(), O_CREAT | O_EXCL | O_CLOEXEC, 0));
    if (!one) return failErrno("using up inodes");
  }
  return {};
}

void EncryptedDisk::destroy() {
  uint32_t how = kDropAll;
  ::ioctl(root_.get(), kShutDown, &how);
  fscrypt_remove_key_arg key{};
  key.key_spec.type = FSCRYPT_KEY_SPEC_TYPE_IDENTIFIER;
  std::memcpy(key.key_spec.u.identifier, key_, sizeof key_);
  ::ioctl(root_.get(), FS_IOC_REMOVE_ENCRYPTION_KEY, &key);  // returns EIO after forgetting the key
  mount_.reset();
  root_.reset();
  // An ended mount namespace may keep the mount a moment longer; a process that cannot be killed
  // keeps its namespace for as long as it lives.
  constexpr useconds_t kLongestPause = 200'000;
  const std::string name = device_.substr(device_.rfind('/') + 1);
  const std::string shown = "/sys/block/" + name + "/loop/backing_file";
  for (useconds_t pause = 1000; base::readFile(shown).value_or("") == backing_;
       pause = std::min(pause * 2, kLongestPause)) {
    ::usleep(pause);
  }
  // The loop device reports the end before closing the file, and only closing would free the space.
  std::ignore = ::ftruncate(file_.get(), 0);
  file_.reset();
}

}  // namespace cloister::linux
