// SPDX-License-Identifier: Apache-2.0
// The command line of a virtual machine's VMM: QEMU's machine type `microvm`, which has no PCI, no
// firmware worth the name, and no device but a disk that is read, a port for the runner's frames
// and a console that only writes. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/process/confine.h"

namespace cloister::runtime::microvm {

// Descriptors that QEMU opens by number, from kKeptFd on.
inline constexpr int kKernelFd = kKeptFd;
inline constexpr int kInitrdFd = kKeptFd + 1;
inline constexpr int kDiskFd = kKeptFd + 2;
inline constexpr uint32_t kOpened = 3;

struct Machine {
  std::string qemu;            // its path, of the image that sandboxes see
  uint64_t own_bytes = 0;      // of memory, for the guest's kernel beside its program
  bool kvm = false;            // on the processor itself; else QEMU interprets its code (TCG)
  uint64_t tsc_kilohertz = 0;  // of this processor, which an emulated one counts with
};

std::vector<std::string> commandFor(const Machine& machine, const SandboxSpec& spec);
// What the guest's kernel is told, in one line.
std::string parametersFor(const Machine& machine, const SandboxSpec& spec);

// As it travels to the spawner.
std::string encodeCommand(const std::vector<std::string>& command);
std::vector<std::string> decodeCommand(std::string_view text);

}  // namespace cloister::runtime::microvm
