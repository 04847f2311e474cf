// SPDX-License-Identifier: Apache-2.0
// libkrun (github.com/containers/libkrun, include/libkrun.h): a VMM as a shared library. The
// library is not linked: a node without libkrun has every other runtime, and reports the missing
// library. The signatures are those of the published header, as of version 1.17.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace cloister::krun {

// Each returns a negative errno on failure; create_ctx otherwise the context, the others 0.
struct KrunApi {
  int32_t (*set_log_level)(uint32_t level) = nullptr;
  int32_t (*create_ctx)() = nullptr;
  int32_t (*set_vm_config)(uint32_t ctx, uint8_t cpus, uint32_t mebibytes) = nullptr;
  // The second serves the directory read-only by itself, too; nullptr before 1.18.
  int32_t (*set_root)(uint32_t ctx, const char* path) = nullptr;
  int32_t (*add_virtiofs3)(uint32_t ctx, const char* tag, const char* path, uint64_t window_bytes,
                           bool read_only) = nullptr;
  // Without these two a guest may ask for sockets of the VMM's process (TSI).
  int32_t (*disable_implicit_vsock)(uint32_t ctx) = nullptr;
  int32_t (*add_vsock)(uint32_t ctx, uint32_t tsi_features) = nullptr;
  int32_t (*add_vsock_port)(uint32_t ctx, uint32_t port, const char* socket) = nullptr;
  int32_t (*set_console_output)(uint32_t ctx, const char* path) = nullptr;
  int32_t (*set_workdir)(uint32_t ctx, const char* path) = nullptr;
  int32_t (*set_exec)(uint32_t ctx, const char* path, const char* const* arguments,
                      const char* const* environment) = nullptr;
  // Ends the process when the machine has; returns only where none could be started.
  int32_t (*start_enter)(uint32_t ctx) = nullptr;

  std::string file;    // path of the library: ".../libkrun.so.1.17.0"
  std::string kernel;  // path of the kernel: ".../libkrunfw.so.5.1.0"
};

// Loads the library and its kernel (libkrunfw) for the lifetime of this process. `library`: a path,
// or a name for dlopen(3). For a missing function, the error names the version with the function.
Result<KrunApi> loadKrun(const std::string& library);

}  // namespace cloister::krun
