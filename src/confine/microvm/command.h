// SPDX-License-Identifier: Apache-2.0
// What the command lines of all VMMs (vmm.h) have in common: the descriptors that they open, what a
// guest's kernel is told, and how a command travels to the spawner. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "confine/confine.h"

namespace cloister::runtime::microvm {

// What is the same for all machines of a node.
struct Machine {
  uint64_t own_bytes = 0;      // of memory, for the guest's kernel beside its program
  bool kvm = false;            // on the processor itself; else its code is interpreted
  uint64_t tsc_kilohertz = 0;  // of this processor, which an emulated one counts with
};

// Descriptors that a VMM opens by number, from kKeptFd on.
inline constexpr int kKernelFd = kKeptFd;
inline constexpr int kInitrdFd = kKeptFd + 1;
inline constexpr int kDiskFd = kKeptFd + 2;
inline constexpr uint32_t kOpened = 3;
// Where spec.guest_begins is not kBoots (filesOf).
inline constexpr int kMemoryFd = kKeptFd + 3;
inline constexpr int kOrdersFd = kKeptFd + 4;
inline constexpr int kStateFd = kKeptFd + 5;

// As a file's name: "/proc/self/fd/5".
std::string descriptorPath(int fd);

// Of the machine's memory: its program's, and its kernel's own.
uint64_t mebibytesOf(const Machine& machine, const SandboxSpec& spec);

// What the guest is told, each NAME=VALUE (wire/guest.h). `port`: of vsock, on which it finds the
// node; 0: the virtio port.
std::vector<std::string> guestSettings(const SandboxSpec& spec, uint32_t port);

// What the guest's kernel is told, in one line: its settings, what every machine's kernel is, and
// `own`, which is its VMM's.
std::string kernelLine(std::string_view own, const SandboxSpec& spec, uint32_t port = 0);

// As it travels to the spawner.
std::string encodeCommand(const std::vector<std::string>& command);
std::vector<std::string> decodeCommand(std::string_view text);

}  // namespace cloister::runtime::microvm
