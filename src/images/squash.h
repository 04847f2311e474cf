// SPDX-License-Identifier: Apache-2.0
// A squashfs of an image's tree, which a virtual machine can have as its root.
#pragma once

#include <string>

#include "base/result.h"

namespace cloister::images {

// True if mksquashfs(1) is installed.
bool canSquash();

// Makes WORK/root.squashfs of WORK/root with mksquashfs(1), confined to `work`. All files are
// root's, nothing depends on when it is made: the same tree gives the same bytes. Ends with an
// error when `cancel`, a descriptor or -1, becomes readable.
Result<> squash(const std::string& work, int cancel);

}  // namespace cloister::images
