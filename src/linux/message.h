// SPDX-License-Identifier: Apache-2.0
// Descriptors between processes: Unix sockets, SCM_RIGHTS (unix(7)), and sealed memory files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace cloister::linux {

// socketpair(2), AF_UNIX, close-on-exec; `type` is SOCK_STREAM, SOCK_SEQPACKET ...
Result<std::pair<Fd, Fd>> socketPair(int type);

// The most descriptors in one message.
inline constexpr size_t kMaxMessageFds = 24;

// sendmsg(2): one message with copies of `fds`. Never raises SIGPIPE. kUnavailable: a socket that
// does not block is full.
Result<> sendMessage(int socket, std::string_view data, std::span<const int> fds = {});

struct Message {
  size_t size = 0;  // 0: the peer has closed
  std::vector<Fd> fds;
};
// recvmsg(2) into `buffer`, waiting unless the socket does not block. A message or a list of
// descriptors that did not fit is an error. kUnavailable: nothing there yet (EAGAIN).
Result<Message> receiveMessage(int socket, std::span<char> buffer);

// A copy of the file at `path` in memory that nobody can change or read, only execute: sealed
// (memfd_create(2), F_ADD_SEALS), mode 0111. What is executed from it is not dumpable.
Result<Fd> sealedProgram(const std::string& path);

// `content` in memory, sealed likewise, for another process to read from the start.
Result<Fd> sealedData(std::string_view content);

// `size` bytes of memory as a file, for other processes to map and to change.
Result<Fd> memoryFile(uint64_t size);
// Seals it: from now on nobody changes its content or its size, whatever he holds open. Fails while
// somebody can write to what he has mapped of it.
Result<> seal(const Fd& file);
// The same file opened anew, to be read: with an offset that nobody else has.
Result<Fd> openAnew(const Fd& file);

}  // namespace cloister::linux
