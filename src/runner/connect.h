// SPDX-License-Identifier: Apache-2.0
// A connection to a server inside, for a session's ports: part of the file server (runner/files.h).
#pragma once

#include <cstdint>

#include "runner/answer.h"

namespace cloister::runner {

// Connects to `port` on 127.0.0.1, or ::1 where nothing listens there, and says so in `answer`;
// then passes bytes on between it and stdin and stdout until the server has sent its last. The end
// of stdin becomes the end of what the server reads. Returns errno.
int connectTo(uint16_t port, Answer& answer);

}  // namespace cloister::runner
