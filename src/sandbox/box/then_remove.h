// SPDX-License-Identifier: Apache-2.0
// A program of a session, after which its code is removed (ExecSpec::temporary), however it ended.
// The session's runner does that, also for a program in a sandbox of its own, which shares the
// workspace alone. While the workspace is held for another program it stays: a removal would be a
// change, of what a program may have put there. Nobody waits for it. One thread.
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
