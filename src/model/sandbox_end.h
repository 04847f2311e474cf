// SPDX-License-Identifier: Apache-2.0
// SandboxEnd: the reason for the end of a session's sandbox.
#pragma once

#include <cstdint>
#include <string>

namespace cloister::model {

struct SandboxEnd {
  enum class Kind : uint8_t {
    kMemory = 1,  // the kernel ended the sandbox at its memory limit
    kRunnerLost,  // its runner died or broke its protocol
    kFileLocks,   // the node ended the sandbox because of its file locks
    kNodeLost,    // the sandbox's node is out of reach
    kTornDown,    // by request
  };
  Kind kind = Kind::kTornDown;
  std::string message;  // for a reader; "" for kTornDown
};

}  // namespace cloister::model
