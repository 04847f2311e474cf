// SPDX-License-Identifier: Apache-2.0
// KVM, the kernel's part of a virtual machine monitor, by its device
// (Documentation/virt/kvm/api.rst).
#pragma once

#include <string>

namespace cloister::linux {

inline constexpr char kKvmDevice[] = "/dev/kvm";
// Its numbers, the same everywhere (Documentation/admin-guide/devices.txt).
inline constexpr unsigned kKvmMajor = 10;
inline constexpr unsigned kKvmMinor = 232;

// Why this process cannot make machines with `device`, with `remedy`; "" without objection. Cheap:
// opens the device, asks for the version and makes a machine without a processor. Does not prove
// that a machine boots.
struct KvmLack {
  std::string what;
  std::string remedy;
};
KvmLack kvmLack(const std::string& device = kKvmDevice);

}  // namespace cloister::linux
