// SPDX-License-Identifier: Apache-2.0
// Memory images: the full state of a session's sandbox, at one moment, as files. The sandbox goes
// on after the moment, and any number of other sandboxes can go on from the same moment.
//
// An image comes from a sandbox, by way of its guest's kernel. An attacker who has broken this
// kernel can put any bytes into the image. Only a guest of the same kind, inside a sandbox, reads
// an image.
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
