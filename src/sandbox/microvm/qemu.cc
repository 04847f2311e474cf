// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/qemu.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "confine/door_link.h"
#include "confine/microvm/command.h"
#include "sandbox/host/ask_version.h"
#include "sandbox/microvm/qmp.h"
#include "wire/runner.h"

namespace cloister::runtime::microvm {
namespace {

// QEMU's messages (accel/kvm/kvm-all.c).
constexpr std::string_view kStalls[] = {"KVM internal error", "error: kvm run failed",
                                        "KVM: entry failed"};

// Linux's message (arch/x86/kernel/apic/apic.c). At boot Linux counts the processor's timer ticks
// during a tenth of a second. If a busy host stops an emulated processor during that tenth, Linux
// counts almost no ticks, continues without the timer, and hangs at the first wait.
constexpr std::string_view kNoTimer = "APIC frequency too slow, disabling apic timer";

// For an emulated processor: no device tells the clock frequency, so pass the frequency; the
// processor does not speculate, so mitigations are useless; show kernel warnings, among them
// kNoTimer. With KVM the guest gets the time from kvm-clock. The processor then is the host's, with
// all its speculation, and the guest's kernel keeps its mitigations: the kernel enforces an agent's
// confinement rules and the program's limits.
std::string processorParameters(const Machine& machine) {
  if (machine.kvm) return {};
  return " tsc=reliable tsc_early_khz=" + std::to_string(machine.tsc_kilohertz) +
         " mitigations=off loglevel=5";
}

// A failed guest ends by a triple fault, which QEMU treats as a reset.
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

// With KVM the host's processor, except features that expose more of the host's kernel or reveal
// other users: no nested virtualisation, no performance counters. The machine never migrates, so
// its clock may be invariant. IA32_ARCH_CAPABILITIES is Intel's register; Linux before 6.16 offers
// the register on each processor, and KVM on a virtual AMD processor then refuses the register to
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

// The link is open. No offloads: the kernel gets plain frames, without a header to believe.
std::vector<std::string> linkOf(const SandboxSpec& spec) {
  if (spec.guest_link == 0) return {};
  return {"-netdev", "tap,id=link,fd=" + std::to_string(linkFd(spec)), "-device",
          std::string("virtio-net-device,netdev=link,mac=") + kLinkEthernetText};
}

constexpr char kMachine[] = "microvm,pit=off,pic=off,rtc=on,isa-serial=on,x-option-roms=off";

// The memory is a file: shared for a machine to be kept, private for a machine that resumes.
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
  std::ranges::move(linkOf(spec), std::back_inserter(command));
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

// With KVM a boot is short, and the filter lacks the system calls for keeping.
constinit const Keeping kKeeping{.orders_to_resume = ordersToResume, .save = saveQemu};

}  // namespace

constinit const VmmKind kQemu{.word = model::Vmm::kQemu,
                              .title = "QEMU",
                              .path = &MicrovmConfig::qemu,
                              .key = "microvm.qemu",
                              .install = "install qemu-system-x86",
                              .kernel = "vmlinuz",
                              .policy = "vmm.json",
                              .link_policy = "qemu-link.json",
                              .automatic = true,
                              .emulates = true,
                              .keeping = &kKeeping,
                              .stalled_at = qemuStalledAt,
                              .failed_by_chance = qemuFailedByChance,
                              .find = findQemu};

}  // namespace cloister::runtime::microvm
