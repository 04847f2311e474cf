// SPDX-License-Identifier: Apache-2.0
// The part of the ledger that is about images whose digest became known only after executions had
// ended on them. Their records are sealed: what became known lies beside (docs/AUDIT.md, "Images").
// Threads, `done` and durability as in store.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "store/store.h"

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

class ImageStore {
 public:
  explicit ImageStore(Engine& engine) : engine_(engine) {}

  // Nothing where it is noted already, or there is no such execution.
  void noteUnverified(Unverified execution, Done<void> done);
  // Binds the digest to executions that were noted with this place: to those whose sandbox was made
  // after the image's newest change, by an audit row "image.verified" with their ids. Others are
  // let go, with "image.not_verified". One row, of one tenant, for at most a few hundred; gives
  // their number: call again while it is not 0.
  void bind(VerifiedImage image, Done<uint64_t> done);

 private:
  Engine& engine_;
};

}  // namespace cloister::store
