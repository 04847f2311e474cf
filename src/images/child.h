// SPDX-License-Identifier: Apache-2.0
// A confined child of an import, and the child's messages.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::images {

// Limit of a child's whole output.
inline constexpr size_t kMaxSaid = size_t{1} << 20;

// Runs `body` in a child, which exits with the result of `body` and may write to the descriptor
// given to `body`. The child dies with the calling thread. `heard` receives the output piece by
// piece, and "" every tenth of a second. Returns the exit status. Fails when the child was killed
// or wrote too much, or when `cancel`, a descriptor or -1, became readable; the child is gone in
// any case. The caller has a single thread.
Result<int> runChild(const std::function<int(int)>& body, int cancel,
                     const std::function<void(std::string_view)>& heard);

}  // namespace cloister::images
