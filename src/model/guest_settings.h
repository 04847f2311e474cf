// SPDX-License-Identifier: Apache-2.0
// What the configuration (config.h) says of runtimes with a kernel of their own.
#pragma once

#include <cstdint>
#include <string>

namespace cloister::model {

struct GvisorSettings {
  std::string runsc = "/usr/bin/runsc";  // "": not offered
  uint32_t ready = 2;                    // sandboxes made ahead, at most
  uint32_t overhead_mb = 128;            // of memory, for gVisor beside each program's limit
};

// What runs a machine: `kAuto` is KVM where it boots one, else emulation where that is allowed.
enum class Accelerator : uint8_t { kAuto, kKvm, kTcg };

// Which program runs it: `kAuto` is Firecracker where it boots one, else QEMU.
enum class Vmm : uint8_t { kAuto, kQemu, kFirecracker, kLibkrun };

struct MicrovmSettings {
  Vmm vmm = Vmm::kAuto;
  std::string qemu = "/usr/bin/qemu-system-x86_64";  // "": not offered
  std::string firecracker = "/usr/bin/firecracker";  // likewise
  std::string libkrun = "/usr/local/lib64/libkrun.so.1";
  std::string image;  // its directory; "": microvm in the installation's data
  Accelerator accelerator = Accelerator::kAuto;
  uint32_t probe_seconds = 10;  // that the first boot with KVM may take
  bool emulate = false;         // whether machines may be emulated, which is slow
  uint32_t ready = 0;           // sandboxes made ahead, at most
  uint32_t templates = 2;       // machines that others begin as, at most; 0: none
  uint32_t overhead_mb = 256;   // of memory, for kernel and VMM beside each program's limit
};

}  // namespace cloister::model
