// SPDX-License-Identifier: Apache-2.0
// The common parts of the command lines of all VMMs (vmm.h): the descriptors that the VMMs open,
// the parameters of a guest's kernel, and the encoding of a command on the way to the spawner.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "confine/confine.h"

namespace cloister::runtime::microvm {

// Properties common to all machines of a node.
struct Machine {
  uint64_t own_bytes = 0;      // of memory, for the guest's kernel beside its program
  bool kvm = false;            // on the processor itself; else its code is interpreted
  uint64_t tsc_kilohertz = 0;  // this processor's frequency, which an emulated processor counts
                               // with
};

// Descriptors that a VMM opens by number, starting at kKeptFd.
inline constexpr int kKernelFd = kKeptFd;
inline constexpr int kInitrdFd = kKeptFd + 1;
inline constexpr int kDiskFd = kKeptFd + 2;
inline constexpr uint32_t kOpened = 3;
// Present unless spec.guest_begins is kBoots (filesOf).
inline constexpr int kMemoryFd = kKeptFd + 3;
inline constexpr int kOrdersFd = kKeptFd + 4;
inline constexpr int kStateFd = kKeptFd + 5;

// The descriptor of the machine's network link, if spec.guest_link is set: in the birth's
// descriptors (spawn_loop.h) the directory of the device, in which the spawner makes the link; in
// the VMM the link, unless the VMM opens the link by name.
constexpr size_t linkIndex(const SandboxSpec& spec) {
  constexpr size_t kBefore = 2;  // the runner's socket, and the command
  return kBefore + kOpened + filesOf(spec.guest_begins);
}
constexpr int linkFd(const SandboxSpec& spec) {
  return kKeptFd + static_cast<int>(kOpened + filesOf(spec.guest_begins));
}

// As a file's name: "/proc/self/fd/5".
std::string descriptorPath(int fd);

// The machine's memory: its program's plus its kernel's.
uint64_t mebibytesOf(const Machine& machine, const SandboxSpec& spec);

// Settings for the guest, each NAME=VALUE (wire/guest.h). `port`: vsock port at which the guest
// reaches the node; 0: the guest uses the virtio port.
std::vector<std::string> guestSettings(const SandboxSpec& spec, uint32_t port);

// The kernel's command line: the settings, the options common to all machines, and `own`, the
// options of its VMM.
std::string kernelLine(std::string_view own, const SandboxSpec& spec, uint32_t port = 0);

// The form in which a command travels to the spawner.
std::string encodeCommand(const std::vector<std::string>& command);
std::vector<std::string> decodeCommand(std::string_view text);

}  // namespace cloister::runtime::microvm
