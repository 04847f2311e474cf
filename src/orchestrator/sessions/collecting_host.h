// SPDX-License-Identifier: Apache-2.0
// The host of a session's program with artifacts: files that changed in the session's workspace
// during the program, by whichever program. The files stay in the session, too.
#pragma once

#include <functional>
#include <memory>

#include "orchestrator/core/task.h"
#include "orchestrator/runs/host.h"
#include "orchestrator/sessions/file_call.h"

namespace cloister::orchestrator {

// Makes a request to the file server of the session.
using AskFiles = std::function<Task<Result<std::shared_ptr<FileCall>>>(FileRequest request)>;

// Wraps `inner`; `rules` select the files.
std::unique_ptr<Host> makeCollectingHost(std::unique_ptr<Host> inner, AskFiles ask,
                                         model::ArtifactRules rules);

}  // namespace cloister::orchestrator
