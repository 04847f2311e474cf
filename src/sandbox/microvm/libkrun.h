// SPDX-License-Identifier: Apache-2.0
// libkrun as a VMM: a library, which cloister-krun (krun/driver.h) loads in the sandbox. Its kernel
// comes with it (libkrunfw), boots no disk of ours and has no initial RAM file system: the
// machine's root is the sandbox's, which the library shows by virtio-fs, with what the guest needs
// in a small file system above that (image.h, shownFiles()). So such machines have the node's own
// image alone.
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
