// SPDX-License-Identifier: Apache-2.0
// Images whose digest became known only after executions had ended. An ended execution's record is
// sealed, so the digest lies beside the record (docs/AUDIT.md, "Images"). The writes are in
// rows/image_bindings.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cloister::store {

// An execution on an image whose content was not verified.
struct Unverified {
  std::string execution;  // id
  std::string place;      // model::ImageState::place
  int64_t since = 0;      // the sandbox was made after this time, by the node's clock
};

// The verified content of an image.
struct VerifiedImage {
  std::string place;
  std::string digest;
  std::string node;
  int64_t changed_at = 0;            // time of the newest change, by the node's clock
  std::string newest = {};           // path of the newest change
  std::vector<std::string> changed;  // some changed paths
};

}  // namespace cloister::store
