// SPDX-License-Identifier: Apache-2.0
// A sandbox beside a session's on this kernel: with namespaces, /tmp, processes and network of its
// own, and the session's workspace. Memory and processes count in the session's limits and in the
// sandbox's own limits. The sandbox ends with the session.
#pragma once

#include <functional>
#include <memory>

#include "model/limits.h"
#include "sandbox/box/exec_apart.h"
#include "sandbox/box/live.h"

namespace cloister::runtime {

// Makes a sandbox with these limits beside the given sandbox.
using MakeBeside =
    std::function<Task<Result<std::shared_ptr<Live>>>(std::shared_ptr<Live>, model::Limits)>;

std::shared_ptr<Apart> besideOf(std::shared_ptr<Live> session, model::Limits limits,
                                MakeBeside make);

}  // namespace cloister::runtime
