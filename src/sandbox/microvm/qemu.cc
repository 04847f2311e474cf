// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/qemu.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "confine/microvm/command.h"
#include "sandbox/host/ask_version.h"
#include "sandbox/microvm/qmp.h"
#include "wire/runner.h"

namespace cloister::runtime::microvm {
namespace {

// As QEMU writes them (accel/kvm/kvm-all.c).
constexpr std::string_view kStalls[] = {"KVM internal error", "error: kvm run failed",
                                        "KVM: entry failed"};

// As Linux writes it (arch/x86/kernel/apic/apic.c). At boot it counts how often the processor's
// timer ticks in a tenth of a second. Where a busy host lets an emulated processor stand still for
// that tenth, just after the count has begun, it counts next to nothing, and goes on with no timer
// at all, until it first waits for one.
constexpr std::string_view kNoTimer = "APIC frequency too slow, disabling apic timer";

// Of an emulated processor nothing tells the time at which its clock runs, so it is said; it does
// not speculate, so that what protects from that is work for nothing; and the kernel's warnings are
// shown, of which kNoTimer is one. KVM tells its guests the
// time (kvm-clock). There the processor is the real one, with all its speculation, and the guest's
// kernel keeps what it does against that: an agent's walls and the program's limits stand in it.
std::string processorParameters(const Machine& machine) {
  if (machine.kvm) return {};
  return " tsc=reliable tsc_early_khz=" + std::to_string(machine.tsc_kilohertz) +
         " mitigations=off loglevel=5";
}

// A guest that has failed ends by a triple fault, which QEMU takes for a reset.
std::string parametersFor(const Machine& machine, const SandboxSpec& spec) {
  return kernelLine("reboot=t" + processorParameters(machine), spec);
}

bool isIntel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel");
#else
  return false;
#endif
}

// With KVM the host's processor as it is, but for what makes more of the host's kernel reachable or
// tells of others: no virtualisation inside, no performance counters. It never moves to another
// host, so that its clock may be the invariant one. IA32_ARCH_CAPABILITIES is Intel's register;
// Linux before 6.16 offers it on every processor, and KVM on a virtual AMD one then refuses it to
// QEMU, which ends.
std::vector<std::string> processorOf(const Machine& machine) {
  if (machine.kvm) {
    return {"-accel", "kvm", "-cpu",
            std::string("host,migratable=off,vmx=off,svm=off,pmu=off") +
                (isIntel() ? "" : ",arch-capabilities=off")};
  }
  return {"-accel", "tcg,thread=multi,tb-size=64", "-cpu", "max"};
}

std::vector<std::string> devicesOf(const Machine& machine, const SandboxSpec& spec) {
  return {
      "-smp",
      std::to_string(spec.guest_cpus),
      "-m",
      std::to_string(mebibytesOf(machine, spec)),
      "-nodefaults",
      "-no-user-config",
      "-no-reboot",
      "-display",
      "none",
      "-kernel",
      descriptorPath(kKernelFd),
      "-initrd",
      descriptorPath(kInitrdFd),
      "-append",
      parametersFor(machine, spec),
      "-add-fd",
      "fd=" + std::to_string(kDiskFd) + ",set=1",
      "-blockdev",
      "driver=file,node-name=image,filename=/dev/fdset/1,read-only=on,locking=off",
      "-device",
      "virtio-blk-device,drive=image",
      "-chardev",
      "socket,id=runner,fd=" + std::to_string(wire::kRunnerFd),
      "-device",
      "virtio-serial-device,max_ports=2",
      "-device",
      "virtserialport,chardev=runner,name=cloister",
      "-chardev",
      "stdio,id=console,signal=off",
      "-serial",
      "chardev:console",
  };
}

constexpr char kMachine[] = "microvm,pit=off,pic=off,rtc=on,isa-serial=on,x-option-roms=off";

// Its memory is a file's: all changes are there where it is to be kept, or none is where it begins
// as what was.
std::vector<std::string> memoryOf(const Machine& machine, const SandboxSpec& spec) {
  if (spec.guest_begins == Beginning::kBoots) return {"-machine", kMachine};
  const bool kept = spec.guest_begins == Beginning::kKept;
  std::vector<std::string> arguments = {
      "-object",
      "memory-backend-file,id=memory,mem-path=" + descriptorPath(kMemoryFd) + ",share=" +
          (kept ? "on" : "off") + ",size=" + std::to_string(mebibytesOf(machine, spec)) + "M",
      "-machine",
      std::string(kMachine) + ",memory-backend=memory",
      "-chardev",
      "socket,id=orders,fd=" + std::to_string(kOrdersFd),
      "-mon",
      "chardev=orders,mode=control"};
  if (!kept) arguments.insert(arguments.end(), {"-incoming", "defer"});
  return arguments;
}

}  // namespace

std::vector<std::string> qemuCommand(const std::string& qemu, const Machine& machine,
                                     const SandboxSpec& spec) {
  std::vector<std::string> command = {qemu};
  std::ranges::move(memoryOf(machine, spec), std::back_inserter(command));
  std::ranges::move(processorOf(machine), std::back_inserter(command));
  std::ranges::move(devicesOf(machine, spec), std::back_inserter(command));
  return command;
}

size_t qemuStalledAt(std::string_view said) {
  size_t first = said.find(kNoTimer);
  for (const std::string_view stall : kStalls)
    first = std::min(first, said.find(stall));
  return first;
}

bool qemuFailedByChance(std::string_view said) {
  return said.contains(kNoTimer);
}

std::string qemuVersionIn(std::string_view text) {
  constexpr std::string_view kBefore = "QEMU emulator version ";
  if (!text.starts_with(kBefore)) return {};
  const std::string_view rest = text.substr(kBefore.size());
  const std::string_view version = rest.substr(0, rest.find_first_not_of("0123456789."));
  return version.empty() ? std::string() : "QEMU " + std::string(version);
}

namespace {

VmmFound findQemu(const MicrovmConfig& config, const Fd& program) {
  std::string title = qemuVersionIn(askVersion(program.get(), "qemu-system-x86_64"));
  if (title.empty()) {
    return {nullptr, config.qemu + " --version says nothing that is QEMU's",
            "install qemu-system-x86 anew, or set microvm.qemu to where it is"};
  }
  return {std::make_shared<const Vmm>(
      Vmm{.kind = &kQemu,
          .title = std::move(title),
          .program = nullptr,
          .command = [qemu = config.qemu](const Machine& machine, const SandboxSpec& spec) {
            return qemuCommand(qemu, machine, spec);
          }})};
}

Task<Result<>> saveQemu(boost::asio::any_io_executor executor, Fd orders, const Template& in) {
  co_return co_await saveState(std::move(executor), std::move(orders), in.state().get());
}

// With KVM a boot is short, and its filter has not the requests for it.
constinit const Keeping kKeeping{.orders_to_resume = ordersToResume, .save = saveQemu};

}  // namespace

constinit const VmmKind kQemu{.word = model::Vmm::kQemu,
                              .title = "QEMU",
                              .path = &MicrovmConfig::qemu,
                              .key = "microvm.qemu",
                              .install = "install qemu-system-x86",
                              .kernel = "vmlinuz",
                              .policy = "vmm.json",
                              .automatic = true,
                              .emulates = true,
                              .keeping = &kKeeping,
                              .stalled_at = qemuStalledAt,
                              .failed_by_chance = qemuFailedByChance,
                              .find = findQemu};

}  // namespace cloister::runtime::microvm
