// SPDX-License-Identifier: Apache-2.0
// For tests: emulated machines of the image in the directory that CLOISTER_MICROVM names.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "base/file.h"
#include "sandbox/microvm/microvm.h"

namespace cloister::runtime {

// With none made ahead, and no template.
inline MicrovmConfig emulatedMachines() {
  const char* image = std::getenv("CLOISTER_MICROVM");
  return {.vmm = model::Vmm::kQemu,
          .qemu = "/usr/bin/qemu-system-x86_64",
          .firecracker = "",
          .libkrun = "",
          .image = image != nullptr ? image : "/nonexistent",
          .image_root = "",
          .accelerator = model::Accelerator::kTcg,
          .emulate = true,
          .probe_seconds = 10,
          .ready = 0,
          .templates = 0,
          .overhead_bytes = uint64_t{256} << 20,
          .programs = base::programDir(),
          .policies = base::shareDir() + "/policies/seccomp"};
}

}  // namespace cloister::runtime
