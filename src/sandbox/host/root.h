// SPDX-License-Identifier: Apache-2.0
// Root: the root file system of one image, and the spawner that has built the root. All sandboxes
// of the spawner see this root. A spawner whose process has ended, or whose root is out of date, is
// replaced; existing sandboxes keep their root. One thread.
#pragma once

#include <functional>
#include <memory>

#include "base/result.h"
#include "sandbox/host/spawner.h"

namespace cloister::runtime {

class Root {
 public:
  using Make = std::function<Result<std::shared_ptr<Spawner>>()>;

  // `first`: the first spawner made by `make`.
  Root(Make make, std::shared_ptr<Spawner> first)
      : make_(std::move(make)), spawner_(std::move(first)) {}

  // For new sandboxes.
  [[nodiscard]] const std::shared_ptr<Spawner>& spawner() const { return spawner_; }
  Result<> renew() {
    spawner_ = TRY(make_());
    return {};
  }

 private:
  Make make_;
  std::shared_ptr<Spawner> spawner_;
};

}  // namespace cloister::runtime
