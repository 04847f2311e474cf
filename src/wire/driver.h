// SPDX-License-Identifier: Apache-2.0
// The messages between a node and the driver of a VMM (vmm/driver.h) beside the runner's frames:
// frames of channel 0 (frame.h) on a separate socket, one in each direction. Both programs come
// from one build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cloister::wire::driver {

enum class ToDriver : uint16_t {
  // none: save the machine, whose runner has sent its first frame. The machine stays paused, and
  // the driver ends after its answer.
  kKeep = 34,
};
enum class FromDriver : uint16_t {
  kKept = 98,     // none: memory and state are in their files
  kNotKept = 99,  // why, as text
};
inline constexpr size_t kMaxReason = 1024;

}  // namespace cloister::wire::driver
