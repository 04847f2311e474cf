// SPDX-License-Identifier: Apache-2.0
// QEMU as a VMM: the machine type `microvm`, without PCI and with minimal firmware. The only
// devices are a disk that is read, a port for the runner's frames, a console that only writes, and
// a network interface, if the machine has a network.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/microvm/vmm.h"

namespace cloister::runtime::microvm {

extern const VmmKind kQemu;

// Pure functions. `qemu`: its path in the image of the sandboxes.
std::vector<std::string> qemuCommand(const std::string& qemu, const Machine& machine,
                                     const SandboxSpec& spec);

// As VmmKind::stalled_at: QEMU waits for a person then, or its guest for ever.
size_t qemuStalledAt(std::string_view said);
// As VmmKind::failed_by_chance.
bool qemuFailedByChance(std::string_view said);

// "QEMU emulator version 7.2.22 (Debian ...)\n..." → "QEMU 7.2.22"; "" for other text.
std::string qemuVersionIn(std::string_view text);

}  // namespace cloister::runtime::microvm
