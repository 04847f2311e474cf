// SPDX-License-Identifier: Apache-2.0
// The answer of a process that was spawned to hand out files, a mount or sockets
// (SpawnRequest::What::kGvisorSave, kWorkspace, kDoor).
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/fd.h"
#include "base/result.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

struct HandedOut {
  std::string said;  // "": the process ended without an answer, or took too long
  std::vector<Fd> fds;
};
// `answer`: a SOCK_SEQPACKET socket whose other end only `process` (a pidfd) holds. The process
// answers once, with kMaxAnswer bytes at most. A process slower than `patience` is killed.
Task<Result<HandedOut>> answerFrom(boost::asio::any_io_executor executor, Fd answer, Fd process,
                                   std::chrono::milliseconds patience);

// For a process that answers with kDone and `count` descriptors, or with an error.
Task<Result<std::vector<Fd>>> handedOut(boost::asio::any_io_executor executor, Fd answer,
                                        Fd process, size_t count,
                                        std::chrono::milliseconds patience);

}  // namespace cloister::runtime
