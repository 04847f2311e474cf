// SPDX-License-Identifier: Apache-2.0
// Memory images: all that runs in a session's sandbox, at one moment, as files. The sandbox goes on
// after that, and any number of others can go on from the same moment.
//
// An image comes from a sandbox, by way of its guest's kernel: who has broken that can put anything
// into it. It is read by nobody but a guest of the same kind, inside a sandbox.
#pragma once

#include <memory>
#include <vector>

#include "base/fd.h"

namespace cloister::runtime {

struct MemoryImage {
  std::vector<Fd> files;  // in the order of Guest::imageFiles(), at their beginning
  // Additional memory limit, charged to the sandbox, for the lifetime of this image.
  std::shared_ptr<void> lent{};
};

}  // namespace cloister::runtime
