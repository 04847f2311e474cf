// SPDX-License-Identifier: Apache-2.0
// Firecracker as a VMM (https://github.com/firecracker-microvm/firecracker): machines of a disk, a
// vsock, an entropy device and a console, with KVM only. Firecracker is controlled over an API. So
// the sandbox executes a driver, cloister-firecracker (vmm/driver.h), and the driver starts
// Firecracker.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/microvm/vmm.h"

namespace cloister::runtime::microvm {

extern const VmmKind kFirecracker;

// Pure functions. The driver's command; `firecracker`: its path in the image of the sandboxes.
std::vector<std::string> firecrackerCommand(const std::string& firecracker, const Machine& machine,
                                            const SandboxSpec& spec);

struct FirecrackerVersion {
  unsigned major = 0;
  unsigned minor = 0;
  std::string text;  // "1.8.0"; "" if not a version
};
// Parses "Firecracker v1.8.0\n...".
FirecrackerVersion firecrackerVersionIn(std::string_view text);
// The first version that describes devices to the guest by ACPI, on which Debian's kernel relies.
inline constexpr unsigned kFirstMajor = 1;
inline constexpr unsigned kFirstMinor = 8;

}  // namespace cloister::runtime::microvm
