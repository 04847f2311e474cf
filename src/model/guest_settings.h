// SPDX-License-Identifier: Apache-2.0
// The configuration (config.h) of runtimes with a kernel of their own.
#pragma once

#include <cstdint>
#include <string>

namespace cloister::model {

struct GvisorSettings {
  std::string runsc = "/usr/bin/runsc";  // "": not offered
  uint32_t ready = 2;                    // sandboxes made ahead, at most
  uint32_t overhead_mb = 128;            // memory of gVisor itself, on top of each program's limit
};

// How machines run: `kAuto` is KVM if a machine boots with KVM, else emulation if permitted.
enum class Accelerator : uint8_t { kAuto, kKvm, kTcg };

// The VMM: `kAuto` is Firecracker if a machine boots with Firecracker, else QEMU.
enum class Vmm : uint8_t { kAuto, kQemu, kFirecracker, kLibkrun };

struct MicrovmSettings {
  Vmm vmm = Vmm::kAuto;
  std::string qemu = "/usr/bin/qemu-system-x86_64";  // "": not offered
  std::string firecracker = "/usr/bin/firecracker";  // path of firecracker; "": not offered
  std::string libkrun = "/usr/local/lib64/libkrun.so.1";
  std::string image;  // its directory; "": microvm in the installation's data
  Accelerator accelerator = Accelerator::kAuto;
  uint32_t probe_seconds = 10;  // timeout of the first boot with KVM
  bool emulate = false;         // whether emulated machines, which are slow, are permitted
  uint32_t ready = 0;           // sandboxes made ahead, at most
  uint32_t templates = 2;       // maximum of saved machines to resume from; 0: none
  uint32_t overhead_mb = 256;   // of memory, for kernel and VMM beside each program's limit
};

}  // namespace cloister::model
