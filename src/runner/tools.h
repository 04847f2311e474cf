// SPDX-License-Identifier: Apache-2.0
// The sandbox's way out for tool calls: a local socket on which programs ask, and the node answers.
#pragma once

#include "runner/answer.h"

namespace cloister::runner {

// Listens on the socket and carries requests and answers (wire/files.h, `tools`) until stdin ends.
// Returns errno.
int serveTools(Answer& answer);

}  // namespace cloister::runner
