// SPDX-License-Identifier: Apache-2.0
// A session's sandbox: programs start and end in the sandbox, side by side, until the teardown.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "sandbox/box/beside.h"
#include "sandbox/box/live.h"
#include "sandbox/box/session_layer.h"
#include "sandbox/box/session_memory.h"

namespace cloister::runtime {

struct SessionTraits {
  std::vector<std::string> env;  // of its image
  bool nests = false;            // programs may have separate sandboxes within the session's
  bool runs_own = true;          // as in model::Walls, as the next
  model::Walls::Writes writes = model::Walls::Writes::kAll;
  std::string writable = {};                        // writablePayload(); "" for none
  std::shared_ptr<const MemoryKeeper> memory = {};  // nullptr: the memory cannot be kept,
  std::string no_memory = {};                       // and why
  std::shared_ptr<const LayerKeeper> layers = {};   // nullptr: its files become no layers
  MakeBeside beside = {};  // programs may have separate sandboxes beside the session's
};

// `live` was claimed for this session, and no program has run in `live`.
std::unique_ptr<Sandbox> makeProcessSession(std::shared_ptr<Live> live, SandboxInfo info,
                                            SessionTraits traits);

}  // namespace cloister::runtime
