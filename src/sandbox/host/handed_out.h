// SPDX-License-Identifier: Apache-2.0
// The answer of a process that was spawned to hand out files or a mount
// (SpawnRequest::What::kGvisorSave, kWorkspace).
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

#include <boost/asio/any_io_executor.hpp>

#include "base/fd.h"
#include "base/result.h"
#include "runtime/runtime.h"

namespace cloister::runtime {

// `answer`: a SOCK_SEQPACKET socket whose other end only `process` (a pidfd) holds. The process
// answers once, with `count` descriptors or an error. A process slower than `patience` is killed.
Task<Result<std::vector<Fd>>> handedOut(boost::asio::any_io_executor executor, Fd answer,
                                        Fd process, size_t count,
                                        std::chrono::milliseconds patience);

}  // namespace cloister::runtime
