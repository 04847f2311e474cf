// SPDX-License-Identifier: Apache-2.0
// The Unix sockets that cloister-egress listens on, made while the process still has its first
// user's rights.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::egress {

inline constexpr uint32_t kSameGroup = UINT32_MAX;

// socket(2), bind(2), listen(2) at `path`, which replaces an abandoned socket. `type`: SOCK_STREAM
// or SOCK_SEQPACKET. Mode 0660 and the group are set before the first connection is possible.
Result<Fd> listenUnix(const std::string& path, int type, uint32_t group = kSameGroup);

// The peer's user by the kernel's record (SO_PEERCRED, unix(7)) is `uid` or root; else kDenied.
Result<> checkPeerUser(int socket, uint32_t uid);

}  // namespace cloister::egress
