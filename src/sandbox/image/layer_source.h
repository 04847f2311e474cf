// SPDX-License-Identifier: Apache-2.0
// LayerSource: the process runtime's access to dependency layers. node/layer_store.h is the
// implementation over the node's store. One thread.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

class LayerSource {
 public:
  virtual ~LayerSource() = default;
  // Protects the layer with this digest from removal while the result is open. Its present content
  // has the digest: kConflict if it was changed, kNotFound if there is no such layer.
  virtual Task<Result<Fd>> open(std::string digest) = 0;
  // Makes the content of a directory, which may be hostile, a layer of this name. An object with
  // `digest`, `size_bytes` and `files`. kTooLarge over a bound of the store.
  virtual Task<Result<base::json::object>> add(std::string name, Fd directory) = 0;
};

}  // namespace cloister::runtime
