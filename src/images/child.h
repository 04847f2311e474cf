// SPDX-License-Identifier: Apache-2.0
// A confined child of an import, and what it says.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cloister::images {

// What a child says in all.
inline constexpr size_t kMaxSaid = size_t{1} << 20;

// Runs `body` in a child, which ends with what it returns as its exit status and may write to the
// descriptor that it gets; it dies with the calling thread. `heard` is given what it writes as it
// comes, and "" every tenth of a second. Returns its exit status; an error when it was killed, said
// too much, or `cancel`, a descriptor or -1, became readable: it is gone in any case. The caller
// has one thread.
Result<int> runChild(const std::function<int(int)>& body, int cancel,
                     const std::function<void(std::string_view)>& heard);

}  // namespace cloister::images
