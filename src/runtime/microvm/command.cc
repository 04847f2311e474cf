// SPDX-License-Identifier: Apache-2.0
#include "runtime/microvm/command.h"

#include <sys/resource.h>

#include <algorithm>
#include <iterator>
#include <span>

#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::runtime::microvm {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20;

std::string descriptor(int fd) {
  return "/proc/self/fd/" + std::to_string(fd);
}

// Those of the program that hold in the guest; memory is its control group's.
std::string limitsFor(const SandboxSpec& spec) {
  std::string text;
  for (const linux::ResourceLimit& limit : std::span(spec.limits).first(spec.limit_count)) {
    if (limit.resource == RLIMIT_DATA) continue;
    if (!text.empty()) text += ',';
    text += std::to_string(limit.resource) + ":" + std::to_string(limit.value);
  }
  return text;
}

// Of an emulated processor nothing tells the time at which its clock runs, so it is said; and it
// does not speculate, so that what protects from that is work for nothing. KVM tells its guests the
// time (kvm-clock). There the processor is the real one, with all its speculation, and the guest's
// kernel keeps what it does against that: an agent's walls and the program's limits stand in it.
std::string processorParameters(const Machine& machine) {
  if (machine.kvm) return {};
  return " tsc=reliable tsc_early_khz=" + std::to_string(machine.tsc_kilohertz) +
         " mitigations=off";
}

// With KVM the host's processor as it is, but for what makes more of the host's kernel reachable or
// tells of others: no virtualisation inside, no performance counters. It never moves to another
// host, so that its clock may be the invariant one.
std::vector<std::string> processorOf(const Machine& machine) {
  if (machine.kvm) {
    return {"-accel", "kvm", "-cpu", "host,migratable=off,vmx=off,svm=off,pmu=off"};
  }
  return {"-accel", "tcg,thread=multi,tb-size=64", "-cpu", "max"};
}

}  // namespace

std::string parametersFor(const Machine& machine, const SandboxSpec& spec) {
  namespace guest = wire::guest;
  // A guest that has failed does not wait, and ends by a triple fault, which the VMM takes for a
  // reset.
  std::string line = "console=ttyS0 quiet loglevel=2 panic=-1 reboot=t random.trust_cpu=on";
  line += processorParameters(machine);
  const auto add = [&line](const char* name, const std::string& value) {
    line.append(1, ' ').append(name).append(1, '=').append(value);
  };
  add(guest::kMemory, std::to_string(spec.guest_memory_bytes));
  add(guest::kPids, std::to_string(spec.guest_pids));
  add(guest::kScratch, std::to_string(spec.scratch_bytes));
  add(guest::kInodes, std::to_string(spec.scratch_inodes));
  add(guest::kNoExec, spec.runs_own ? "0" : "1");
  add(guest::kLimits, limitsFor(spec));
  return line;
}

namespace {

std::vector<std::string> devicesOf(const Machine& machine, const SandboxSpec& spec) {
  const uint64_t memory = spec.guest_memory_bytes + machine.own_bytes;
  const std::string megabytes = std::to_string((memory + kMebibyte - 1) / kMebibyte);
  return {
      "-smp",
      std::to_string(spec.guest_cpus),
      "-m",
      megabytes,
      "-nodefaults",
      "-no-user-config",
      "-no-reboot",
      "-display",
      "none",
      "-kernel",
      descriptor(kKernelFd),
      "-initrd",
      descriptor(kInitrdFd),
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

}  // namespace

std::vector<std::string> commandFor(const Machine& machine, const SandboxSpec& spec) {
  std::vector<std::string> command = {
      machine.qemu, "-machine", "microvm,pit=off,pic=off,rtc=on,isa-serial=on,x-option-roms=off"};
  std::ranges::move(processorOf(machine), std::back_inserter(command));
  std::ranges::move(devicesOf(machine, spec), std::back_inserter(command));
  return command;
}

std::string encodeCommand(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& argument : command)
    text.append(argument).push_back('\0');
  return text;
}

std::vector<std::string> decodeCommand(std::string_view text) {
  std::vector<std::string> command;
  while (!text.empty()) {
    const size_t end = text.find('\0');
    command.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return command;
}

}  // namespace cloister::runtime::microvm
