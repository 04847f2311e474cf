// SPDX-License-Identifier: Apache-2.0
// Runs a program of a session and afterwards removes the program's code (ExecSpec::temporary),
// after any end. The session's runner does the removal, also for a program in a sandbox of its own,
// which shares the workspace alone. While the workspace is held for another program the code stays:
// the removal would be a change, and a program may have replaced the file. No caller waits for the
// removal. One thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/runtime.h"
#include "sandbox/box/hold.h"
#include "sandbox/box/switchboard.h"

namespace cloister::runtime {

// Returns `exec` itself without paths. `gate`: the session's. If already closed, the gate was
// closed for `exec`.
std::unique_ptr<Exec> thenRemove(std::unique_ptr<Exec> exec, boost::asio::any_io_executor executor,
                                 std::shared_ptr<Switchboard> board, std::shared_ptr<HoldGate> gate,
                                 std::vector<std::string> paths);

}  // namespace cloister::runtime
