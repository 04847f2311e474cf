// SPDX-License-Identifier: Apache-2.0
// ImageSource: where the process runtime has imported images from. node/image_source.h is the one
// that reads the node's store. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "model/image_name.h"
#include "model/plan.h"

namespace cloister::runtime {

// One tree, which is not removed for as long as `hold` is open.
struct ImageFiles {
  std::string digest;
  std::string root;      // path of its tree; nothing in it is ever changed
  std::string squashfs;  // path of the same for virtual machines; "" if there is none
  Fd hold;
};

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // All that there are now; another list when they change.
  virtual std::shared_ptr<const std::vector<model::OfferedImage>> offered() = 0;
  // The one with this digest; kUnsupported, with the remedy, where there is none.
  virtual Result<ImageFiles> open(const std::string& digest) = 0;
  // NAME=value, for programs that have none of that name: images with the same tree may have
  // others. kUnsupported, with the remedy, where the name is no more, or another tree's.
  virtual Result<std::vector<std::string>> env(const model::ImageRef& image) = 0;
};

}  // namespace cloister::runtime
