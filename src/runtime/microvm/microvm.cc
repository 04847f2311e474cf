// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/microvm.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/crypto.h"
#include "base/file.h"
#include "linux/message.h"
#include "linux/seccomp.h"
#include "runtime/microvm/archive.h"
#include "runtime/microvm/command.h"
#include "runtime/process/ask_version.h"
#include "wire/guest.h"

namespace cloister::runtime {
namespace {

using State = model::Finding::State;

// An emulated machine's kernel takes seconds, on a busy host many.
constexpr auto kBootPatience = std::chrono::seconds(120);
constexpr size_t kMaxKernel = size_t{64} << 20;
// QEMU's threads beside those of the machine's processors.
constexpr uint32_t kOwnThreads = 32;
constexpr uint32_t kMostCpus = 8;

Result<Fd> another(const Fd& file) {
  Fd same(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
  if (!same) return failErrno("keeping the machine's image");
  return same;
}

struct Image {
  Fd kernel;  // sealed, as the next
  Fd initrd;
  std::string initrd_bytes;
  std::string walls_program;
  Fd disk;
  std::string digest;  // of the disk

  // For an agent with walls.
  [[nodiscard]] Result<Fd> initrdWith(const std::string& walls) const {
    namespace names = wire::guest;
    return linux::sealedData(
        initrd_bytes +
        microvm::makeArchive({{names::kWalls, S_IFREG | 0444, walls},
                              {names::kWallsProgram, S_IFREG | 0555, walls_program}}));
  }
};

class Microvm final : public Guest {
 public:
  Microvm(const MicrovmConfig& config, microvm::Machine machine, std::string version, Image image)
      : ready_(config.ready),
        overhead_bytes_(config.overhead_bytes),
        machine_(std::move(machine)),
        version_(std::move(version)),
        image_(std::move(image)) {}

  [[nodiscard]] std::string name() const override { return "microvm"; }
  [[nodiscard]] SpawnRequest::What what() const override { return SpawnRequest::What::kMicrovm; }
  [[nodiscard]] uint32_t ready() const override { return ready_; }
  [[nodiscard]] std::string imageDigest() const override { return image_.digest; }
  [[nodiscard]] bool counts() const override { return true; }
  [[nodiscard]] std::chrono::seconds patience() const override { return kBootPatience; }
  [[nodiscard]] std::vector<std::string> weakened() const override {
    return {
        "emulated: QEMU interprets the machine's code (TCG), which is slow, and more of QEMU to "
        "trust than with KVM"};
  }
  [[nodiscard]] model::Finding finding() const override {
    return {"runtime", name(), State::kReduced,
            version_ + ", emulated, image " + image_.digest.substr(0, 19), ""};
  }

  // Half of what comes on top is the guest kernel's, half the VMM's.
  void adjust(const model::Limits& limits, SandboxSpec& spec,
              linux::CgroupLimits& cgroup) const override {
    spec.guest_memory_bytes = limits.memory_bytes;
    spec.guest_pids = limits.pids + 1;
    spec.guest_cpus = std::clamp<uint32_t>((limits.cpu_millis + 999) / 1000, 1, kMostCpus);
    cgroup.memory_bytes += overhead_bytes_;
    cgroup.pids = kOwnThreads + spec.guest_cpus;
  }

  [[nodiscard]] Result<std::vector<Fd>> files(const SandboxSpec& spec,
                                              const std::string& walls) const override {
    std::vector<Fd> fds;
    fds.push_back(
        TRY(linux::sealedData(microvm::encodeCommand(microvm::commandFor(machine_, spec)))));
    fds.push_back(TRY(another(image_.kernel)));
    fds.push_back(walls.empty() ? TRY(another(image_.initrd)) : TRY(image_.initrdWith(walls)));
    fds.push_back(TRY(another(image_.disk)));
    return fds;
  }
  [[nodiscard]] uint32_t fileCount() const override { return 1 + microvm::kOpened; }

  void describe(const SandboxSpec& spec, base::json::object& plan) const override {
    base::json::array argv;
    for (const std::string& argument : microvm::commandFor(machine_, spec))
      argv.emplace_back(argument);
    plan["microvm"] = {{"version", version_}, {"accelerator", "tcg"}, {"command", std::move(argv)}};
  }

 private:
  const uint32_t ready_;
  const uint64_t overhead_bytes_;
  const microvm::Machine machine_;
  const std::string version_;
  const Image image_;
};

// "QEMU emulator version 7.2.22 (Debian ...)\n..." → "QEMU 7.2.22"; "" if it is not.
std::string versionIn(std::string_view text) {
  constexpr std::string_view kBefore = "QEMU emulator version ";
  if (!text.starts_with(kBefore)) return {};
  const std::string_view rest = text.substr(kBefore.size());
  const std::string_view version = rest.substr(0, rest.find_first_not_of("0123456789."));
  return version.empty() ? std::string() : "QEMU " + std::string(version);
}

// How fast this processor counts, which QEMU hands on to the machines it emulates.
uint64_t tscKilohertz() {
#if defined(__x86_64__)
  constexpr auto kLong = std::chrono::milliseconds(20);
  const auto begin = base::monotonicNow();
  const uint64_t before = __builtin_ia32_rdtsc();
  std::this_thread::sleep_for(kLong);
  const uint64_t ticks = __builtin_ia32_rdtsc() - before;
  const auto took = std::chrono::nanoseconds(base::monotonicNow() - begin).count();
  return static_cast<uint64_t>(static_cast<double>(ticks) * 1e6 / static_cast<double>(took));
#else
  return 0;
#endif
}

Result<Fd> openWhole(const std::string& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return failErrno("opening " + path);
  return file;
}

Result<std::string> digestOf(const Fd& file) {
  base::Sha256 sum;
  std::vector<char> bytes(size_t{1} << 20);
  for (off_t at = 0;;) {
    const ssize_t n = ::pread(file.get(), bytes.data(), bytes.size(), at);
    if (n < 0) return failErrno("reading the image");
    if (n == 0) return "sha256:" + sum.hex();
    sum.update({bytes.data(), static_cast<size_t>(n)});
    at += n;
  }
}

std::string_view bytesOf(const std::vector<sock_filter>& filter) {
  const auto bytes = std::as_bytes(std::span(filter));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The image's modules, and what the node brings itself.
Result<std::string> makeInitrd(const MicrovmConfig& config) {
  namespace names = wire::guest;
  std::string modules = TRY(base::readFile(config.image + "/modules.cpio", kMaxKernel));
  const std::string guest = TRY(base::readFile(config.guest));
  const std::string runner = TRY(base::readFile(config.runner));
  const linux::SeccompProgram seccomp = TRY(linux::loadSeccomp(config.seccomp_policy));
  return std::move(modules) +
         microvm::makeArchive({{names::kInit, S_IFREG | 0555, guest},
                               {names::kRunner, S_IFREG | 0555, runner},
                               {names::kFilter, S_IFREG | 0444, bytesOf(seccomp.filter)}});
}

Result<Image> openImage(const MicrovmConfig& config) {
  Image image;
  const std::string kernel = TRY(base::readFile(config.image + "/vmlinuz", kMaxKernel));
  image.kernel = TRY(linux::sealedData(kernel));
  image.initrd_bytes = TRY(makeInitrd(config));
  image.initrd = TRY(linux::sealedData(image.initrd_bytes));
  image.walls_program = TRY(base::readFile(config.walls));
  image.disk = TRY(openWhole(config.image + "/root.squashfs"));
  image.digest = TRY(digestOf(image.disk));
  return image;
}

GuestFound lacks(std::string detail, std::string remedy) {
  return {nullptr, {"runtime", "microvm", State::kMissing, std::move(detail), std::move(remedy)}};
}

}  // namespace

// What costs little first: most nodes have no such runtime, and none should start later for that.
GuestFound findMicrovm(const MicrovmConfig& config) {
  if (config.qemu.empty()) return lacks("turned off", "set microvm.qemu in the configuration");
  const auto program = openWhole(config.image_root + config.qemu);
  if (!program) {
    return lacks(program.error().message,
                 "install qemu-system-x86, or set microvm.qemu, and start anew");
  }
  const std::string remedy = "make one with ./dev images, or set microvm.image to where it is";
  if (const auto kernel = openWhole(config.image + "/vmlinuz"); !kernel) {
    return lacks("no image: " + kernel.error().message, remedy);
  }
  if (!config.emulate) {
    return lacks("machines are emulated in this version, which has to be allowed",
                 "set microvm.emulate to true: programs take many times as long");
  }
  std::string version = versionIn(askVersion(program->get(), "qemu-system-x86_64"));
  if (version.empty()) {
    return lacks(config.qemu + " --version says nothing that is QEMU's",
                 "install qemu-system-x86 anew, or set microvm.qemu to where it is");
  }
  auto image = openImage(config);
  if (!image) return lacks("no image: " + image.error().message, remedy);
  const uint64_t tsc = tscKilohertz();
  if (tsc == 0) return lacks("machines are of x86_64 only", "use a node with such processors");
  microvm::Machine machine{config.qemu, config.overhead_bytes / 2, tsc};
  auto guest = std::make_shared<const Microvm>(config, std::move(machine), std::move(version),
                                               *std::move(image));
  return {guest, guest->finding()};
}

}  // namespace cloister::runtime
