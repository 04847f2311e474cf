// SPDX-License-Identifier: Apache-2.0
// A session's sandbox: programs come and go in it, beside each other, until it is torn down.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "sandbox/box/beside.h"
#include "sandbox/box/live.h"
#include "sandbox/box/session_memory.h"

namespace cloister::runtime {

struct SessionTraits {
  std::vector<std::string> env;  // of its image
  bool nests = false;            // programs may have a sandbox of their own within it
  bool runs_own = true;          // model::Walls, as the next
  model::Walls::Writes writes = model::Walls::Writes::kAll;
  std::string writable = {};                        // writablePayload(); "" for none
  std::shared_ptr<const MemoryKeeper> memory = {};  // nullptr: it cannot be kept,
  std::string no_memory = {};                       // and why
  MakeBeside beside = {};  // programs may have a sandbox of their own beside it
};

// `live` was claimed for it, and nothing has run in it.
std::unique_ptr<Sandbox> makeProcessSession(std::shared_ptr<Live> live, SandboxInfo info,
                                            SessionTraits traits);

}  // namespace cloister::runtime
