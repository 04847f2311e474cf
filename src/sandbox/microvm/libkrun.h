// SPDX-License-Identifier: Apache-2.0
// libkrun as a VMM: a library that cloister-krun (krun/driver.h) loads in the sandbox. The library
// brings its kernel (libkrunfw), boots no disk of ours and has no initial RAM file system. The
// machine's root is the sandbox's, shown by virtio-fs, with the guest's own files in a small file
// system above the root (image.h, shownFiles()). So such machines have the node's own image alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/microvm/vmm.h"

namespace cloister::runtime::microvm {

extern const VmmKind kLibkrun;

// Pure functions. `library`: its path in the image of the sandboxes.
std::vector<std::string> libkrunCommand(const std::string& library, const Machine& machine,
                                        const SandboxSpec& spec);

// Parses the output of cloister-krun --check, ".../libkrun.so.1.17.0\n.../libkrunfw.so.5.1.0\n".
// The title is "" if the output is an error.
struct LibkrunFiles {
  std::string title;   // "libkrun 1.17.0 (libkrunfw 5.1.0)"
  std::string kernel;  // the second
};
LibkrunFiles libkrunFiles(std::string_view said);

}  // namespace cloister::runtime::microvm
