// SPDX-License-Identifier: Apache-2.0
// The program behind a TCP connection: sock_diag(7) knows the socket, and /proc the processes that
// have it open. Any thread.
#pragma once

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

// A connection of IPv4, as one of its sockets sees it.
struct TcpEnds {
  in_addr own{};
  uint16_t own_port = 0;
  in_addr peer{};
  uint16_t peer_port = 0;
};

// For questions about the network namespace of the caller. The kernel may lack the module.
Result<Fd> openSockDiag();

// The inode of the socket with these ends, in the namespace where `socket` was made. kNotFound:
// none, or no process has it any more.
Result<uint64_t> inodeOf(int socket, const TcpEnds& ends);

// The name (/proc/PID/comm, which a program may choose) of a process of the tree of `root` that has
// the socket open; "" if none is found. Reads the texts of links in /proc/PID/fd, of at most
// kMostLinks, and follows none. Needs permission to trace the processes (ptrace(2)).
std::string programWithSocket(pid_t root, uint64_t inode);
inline constexpr size_t kMostLinks = 2048;

}  // namespace cloister::linux
