// SPDX-License-Identifier: Apache-2.0
// Images whose digest became known only after executions had ended on them. Their records are
// sealed: what became known lies beside (docs/AUDIT.md, "Images"). The writes are in
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
  int64_t since = 0;      // its sandbox was made after this, by the node's clock
};

// What an image's content was verified to be.
struct VerifiedImage {
  std::string place;
  std::string digest;
  std::string node;
  int64_t changed_at = 0;            // nothing in it changed after this, by the node's clock
  std::string newest = {};           // what changed last: a path
  std::vector<std::string> changed;  // some paths of what changed
};

}  // namespace cloister::store
