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

// Pure, both. `library`: its path, of the image that sandboxes see.
std::vector<std::string> libkrunCommand(const std::string& library, const Machine& machine,
                                        const SandboxSpec& spec);

// Of what cloister-krun --check says, ".../libkrun.so.1.17.0\n.../libkrunfw.so.5.1.0\n". Without a
// title where it says why the library cannot be used.
struct LibkrunFiles {
  std::string title;   // "libkrun 1.17.0 (libkrunfw 5.1.0)"
  std::string kernel;  // the second
};
LibkrunFiles libkrunFiles(std::string_view said);

}  // namespace cloister::runtime::microvm
