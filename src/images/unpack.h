// SPDX-License-Identifier: Apache-2.0
// What the confined process of an import does: reads an archive or a directory that anybody may
// have made, and makes a tree of it.
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
  std::vector<std::string> notes;  // what was left out
};

// Of what is open at `input`, a file or a directory (O_RDONLY), the tree `root` in the directory
// `work`, which is empty; what lies beside it is of no use any more. `say` is told what is being
// done.
Result<Unpacked> unpack(Fd input, int work, const Bounds& bounds,
                        const std::function<void(const std::string&)>& say);

}  // namespace cloister::images
