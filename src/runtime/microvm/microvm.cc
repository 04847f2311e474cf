// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/microvm.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/crypto.h"
#include "linux/message.h"
#include "linux/seccomp.h"
#include "linux/tree_digest.h"
#include "runtime/microvm/accelerator.h"
#include "runtime/microvm/command.h"
#include "runtime/microvm/devices.h"
#include "runtime/microvm/image.h"
#include "runtime/microvm/prove_kvm.h"
#include "runtime/process/ask_version.h"
#include "runtime/process/own_cache.h"

namespace cloister::runtime {
namespace {

using State = model::Finding::State;
using Way = microvm::Choice::Way;
using microvm::Image;

// An emulated machine's kernel takes seconds, on a busy host many.
constexpr auto kEmulatedPatience = std::chrono::seconds(120);
// QEMU's threads beside those of the machine's processors.
constexpr uint32_t kOwnThreads = 32;
constexpr uint32_t kMostCpus = 8;

#if defined(__x86_64__)
constexpr bool kX86 = true;
#else
constexpr bool kX86 = false;
#endif

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

microvm::Machine machineOf(const MicrovmConfig& config, bool kvm) {
  return {.qemu = config.qemu,
          .own_bytes = config.overhead_bytes / 2,
          .kvm = kvm,
          .tsc_kilohertz = kvm ? 0 : tscKilohertz()};
}

// With the processor's own virtualisation a VMM has more of the kernel to ask (devices.h).
struct Processor {
  bool kvm = false;
  std::string finding;  // what was found about it
  linux::SeccompProgram seccomp;
};

class Microvm final : public Guest {
 public:
  Microvm(const MicrovmConfig& config, std::string version, Image image, Processor processor)
      : ready_(config.ready),
        overhead_bytes_(config.overhead_bytes),
        version_(std::move(version)),
        image_(std::move(image)),
        processor_(std::move(processor)),
        machine_(machineOf(config, processor_.kvm)) {}
  // With another image.
  Microvm(const Microvm& like, Image image)
      : ready_(like.ready_),
        overhead_bytes_(like.overhead_bytes_),
        version_(like.version_),
        image_(std::move(image)),
        processor_(like.processor_),
        machine_(like.machine_) {}

  [[nodiscard]] std::string name() const override { return "microvm"; }
  [[nodiscard]] SpawnRequest::What what() const override { return SpawnRequest::What::kMicrovm; }
  [[nodiscard]] uint32_t ready() const override { return ready_; }
  [[nodiscard]] std::string imageDigest() const override { return image_.digest; }
  [[nodiscard]] Result<std::shared_ptr<const Guest>> withImage(
      const std::string& path, const std::string& digest) const override {
    return std::make_shared<const Microvm>(*this, TRY(image_.withDisk(path, digest)));
  }
  [[nodiscard]] bool counts() const override { return true; }
  [[nodiscard]] std::chrono::seconds patience() const override {
    return processor_.kvm ? kRunnerPatience : kEmulatedPatience;
  }
  [[nodiscard]] std::vector<std::string> weakened() const override {
    if (processor_.kvm) return {};
    return {
        "emulated: QEMU interprets the machine's code (TCG), which is slow, and more of QEMU to "
        "trust than with KVM"};
  }
  [[nodiscard]] model::Finding finding() const override {
    return {"runtime", name(), processor_.kvm ? State::kOk : State::kReduced,
            version_ + ", " + processor_.finding + ", image " + image_.digest.substr(0, 19), ""};
  }
  [[nodiscard]] size_t stalledAt(std::string_view said) const override {
    return processor_.kvm ? microvm::stalledAt(said) : std::string_view::npos;
  }

  // Half of what comes on top is the guest kernel's, half the VMM's.
  void adjust(const model::Limits& limits, SandboxSpec& spec,
              linux::CgroupLimits& cgroup) const override {
    spec.guest_memory_bytes = limits.memory_bytes;
    spec.guest_pids = limits.pids + 1;
    spec.guest_cpus = std::clamp<uint32_t>((limits.cpu_millis + 999) / 1000, 1, kMostCpus);
    spec.guest_devices = processor_.kvm;
    cgroup.memory_bytes += overhead_bytes_;
    cgroup.pids = kOwnThreads + spec.guest_cpus;
  }

  [[nodiscard]] Result<std::vector<Fd>> files(const SandboxSpec& spec,
                                              const std::string& walls) const override {
    std::vector<Fd> fds;
    fds.push_back(
        TRY(linux::sealedData(microvm::encodeCommand(microvm::commandFor(machine_, spec)))));
    fds.push_back(TRY(microvm::another(image_.kernel)));
    fds.push_back(walls.empty() ? TRY(microvm::another(image_.initrd))
                                : TRY(image_.initrdWith(walls)));
    fds.push_back(TRY(microvm::another(image_.disk)));
    if (!processor_.kvm) return fds;
    fds.push_back(TRY(microvm::makeDevices()));
    fds.push_back(TRY(linux::sealedData(microvm::bytesOf(processor_.seccomp.filter))));
    return fds;
  }
  [[nodiscard]] uint32_t fileCount() const override {
    return 1 + microvm::kOpened + (processor_.kvm ? 2 : 0);
  }

  void describe(const SandboxSpec& spec, base::json::object& plan) const override {
    base::json::array argv;
    for (const std::string& argument : microvm::commandFor(machine_, spec))
      argv.emplace_back(argument);
    plan["microvm"] = {{"version", version_},
                       {"accelerator", processor_.kvm ? "kvm" : "tcg"},
                       {"command", std::move(argv)}};
    if (!processor_.kvm) return;
    base::json::array devices;
    for (const MountStep& step : microvm::deviceSteps())
      devices.emplace_back(toJsonObject(step));
    plan["microvm"].as_object()["dev"] = std::move(devices);
    plan["microvm"].as_object()["seccomp"] = processor_.seccomp.description;
  }

 private:
  const uint32_t ready_;
  const uint64_t overhead_bytes_;
  const std::string version_;
  const Image image_;
  const Processor processor_;
  const microvm::Machine machine_;
};

// "QEMU emulator version 7.2.22 (Debian ...)\n..." → "QEMU 7.2.22"; "" if it is not.
std::string versionIn(std::string_view text) {
  constexpr std::string_view kBefore = "QEMU emulator version ";
  if (!text.starts_with(kBefore)) return {};
  const std::string_view rest = text.substr(kBefore.size());
  const std::string_view version = rest.substr(0, rest.find_first_not_of("0123456789."));
  return version.empty() ? std::string() : "QEMU " + std::string(version);
}

GuestFound lacks(std::string detail, std::string remedy) {
  return {nullptr, {"runtime", "microvm", State::kMissing, std::move(detail), std::move(remedy)}};
}

// A machine like those that programs get, only small.
microvm::KvmTrial trialOf(const MicrovmConfig& config, const Image& image, const Fd& program,
                          const linux::SeccompProgram& seccomp) {
  SandboxSpec spec;
  spec.guest_memory_bytes = uint64_t{64} << 20;
  spec.guest_pids = 32;
  spec.guest_cpus = 1;
  spec.scratch_bytes = uint64_t{1} << 20;
  spec.scratch_inodes = 64;
  microvm::KvmTrial trial;
  trial.image_root = config.image_root;
  trial.command = microvm::commandFor(machineOf(config, true), spec);
  trial.filter = seccomp.filter;
  trial.kernel = image.kernel.get();
  trial.initrd = image.initrd.get();
  trial.disk = image.disk.get();
  trial.patience = std::chrono::seconds(config.probe_seconds);
  trial.name =
      "kvm-" + base::sha256Hex(config.image_root + config.qemu + "\n" + config.image).substr(0, 16);
  struct stat status{};
  trial.key = ::fstat(program.get(), &status) == 0 ? linux::stampOf(status) : "";
  trial.key += "\n" + image.digest + "\n";
  trial.key +=
      ::stat((config.image + "/vmlinuz").c_str(), &status) == 0 ? linux::stampOf(status) : "";
  trial.key += "\n" + base::sha256Hex(image.initrd_bytes) + "\n" +
               base::sha256Hex(microvm::encodeCommand(trial.command)) + "\n" +
               base::sha256Hex(microvm::bytesOf(seccomp.filter));
  return trial;
}

microvm::Choice choiceFor(const MicrovmConfig& config,
                          const std::function<microvm::KvmFound()>& ask) {
  return microvm::chooseAccelerator(config.accelerator, config.emulate, ask);
}

}  // namespace

// What costs little first: most nodes have no such runtime, and none should start later for that.
GuestFound findMicrovm(const MicrovmConfig& config) {
  if (config.qemu.empty()) return lacks("turned off", "set microvm.qemu in the configuration");
  const auto program = microvm::openWhole(config.image_root + config.qemu);
  if (!program) {
    return lacks(program.error().message,
                 "install qemu-system-x86, or set microvm.qemu, and start anew");
  }
  const std::string remedy = "make one with ./dev images, or set microvm.image to where it is";
  if (const auto kernel = microvm::openWhole(config.image + "/vmlinuz"); !kernel) {
    return lacks("no image: " + kernel.error().message, remedy);
  }
  if (!kX86) return lacks("machines are of x86_64 only", "use a node with such processors");
  const bool asks = config.accelerator != model::Accelerator::kTcg;
  const microvm::KvmFound device = asks ? microvm::askKvm() : microvm::KvmFound{};
  if (auto can = choiceFor(config, [&] { return device; }); can.way == Way::kNone) {
    return lacks(std::move(can.detail), std::move(can.remedy));
  }
  std::string version = versionIn(askVersion(program->get(), "qemu-system-x86_64"));
  if (version.empty()) {
    return lacks(config.qemu + " --version says nothing that is QEMU's",
                 "install qemu-system-x86 anew, or set microvm.qemu to where it is");
  }
  auto image = microvm::openImage(config);
  if (!image) return lacks("no image: " + image.error().message, remedy);
  auto seccomp = linux::loadSeccomp(config.seccomp_policy, config.vmm_policy);
  if (!seccomp) return lacks(seccomp.error().message, "install Cloister anew");
  const microvm::Choice choice = choiceFor(config, [&] {
    return device.works ? microvm::proveKvm(trialOf(config, *image, *program, *seccomp)) : device;
  });
  if (choice.way == Way::kNone) return lacks(choice.detail, choice.remedy);
  auto guest = std::make_shared<const Microvm>(
      config, std::move(version), *std::move(image),
      Processor{choice.way == Way::kKvm, choice.detail, *std::move(seccomp)});
  GuestFound found{guest, guest->finding()};
  found.finding.remedy = choice.remedy;
  return found;
}

}  // namespace cloister::runtime
