// SPDX-License-Identifier: Apache-2.0
// ImageSource: the process runtime's access to imported images. node/image_source.h is the
// implementation over the node's store. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "model/image_name.h"
#include "model/plan.h"

namespace cloister::runtime {

// An image's tree, kept from removal while `hold` is open.
struct ImageFiles {
  std::string digest;
  std::string root;      // path of the tree, whose files never change
  std::string squashfs;  // path of the same for virtual machines; "" if there is none
  Fd hold;
};

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // All current images. A change replaces the list.
  virtual std::shared_ptr<const std::vector<model::OfferedImage>> offered() = 0;
  // Opens the image with this digest. kUnsupported, with the remedy, if absent.
  virtual Result<ImageFiles> open(const std::string& digest) = 0;
  // Variables NAME=value, unless the program sets the same name. Belongs to the image's name:
  // images with the same tree may have different variables. kUnsupported, with the remedy, if the
  // name is gone or now names another tree.
  virtual Result<std::vector<std::string>> env(const model::ImageRef& image) = 0;
};

}  // namespace cloister::runtime
