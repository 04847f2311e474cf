// SPDX-License-Identifier: Apache-2.0
// HeldDoor: the door of one sandbox while the sandbox lives. The sockets keep the sandbox's network
// namespace, so the removal of a sandbox releases its door.
#pragma once

#include "runtime/runtime.h"

namespace cloister::runtime {

class HeldDoor {
 public:
  HeldDoor() = default;
  HeldDoor(const HeldDoor&) = delete;
  HeldDoor& operator=(const HeldDoor&) = delete;
  // Releases without waiting.
  virtual ~HeldDoor() = default;

  // Closes the sockets and waits, for a bounded time, until cloister-egress holds none either.
  // Idempotent.
  virtual Task<void> release() = 0;
};

}  // namespace cloister::runtime
