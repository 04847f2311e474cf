// SPDX-License-Identifier: Apache-2.0
// A session's sandbox: programs come and go in it, beside each other, until it is torn down.
#pragma once

#include <memory>

#include "runtime/process/live.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

// `live` was claimed for it, and nothing has run in it.
std::unique_ptr<Sandbox> makeProcessSession(std::shared_ptr<Live> live, SandboxInfo info,
                                            std::vector<std::string> env);

}  // namespace cloister::runtime
