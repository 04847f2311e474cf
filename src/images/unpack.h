// SPDX-License-Identifier: Apache-2.0
// The task of the confined process of an import: reads an archive or a directory of any origin, and
// makes a tree of the contents.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "images/bounds.h"
#include "model/image.h"

namespace cloister::images {

struct Unpacked {
  std::string source;     // as of model::Image
  std::string reference;  // the same
  model::ImageEnv env;
  std::vector<std::string> notes;  // omitted parts
};

// Unpacks the file or directory open at `input` (O_RDONLY) into the tree `root` in the empty
// directory `work`; other entries of `work` are temporary. `say` receives progress messages.
Result<Unpacked> unpack(Fd input, int work, const Bounds& bounds,
                        const std::function<void(const std::string&)>& say);

}  // namespace cloister::images
