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

// Maximum number of descriptors in a message.
inline constexpr size_t kMaxMessageFds = 24;

// sendmsg(2): sends a message with copies of `fds`. Never raises SIGPIPE. kUnavailable: a
// non-blocking socket is full.
Result<> sendMessage(int socket, std::string_view data, std::span<const int> fds = {});

struct Message {
  size_t size = 0;  // 0: the peer has closed
  std::vector<Fd> fds;
};
// recvmsg(2) into `buffer`, waiting unless the socket does not block. A message or a list of
// descriptors that did not fit is an error. kUnavailable: nothing there yet (EAGAIN).
Result<Message> receiveMessage(int socket, std::span<char> buffer);

// A copy in memory of the file at `path`, executable but neither writable nor readable: sealed
// (memfd_create(2), F_ADD_SEALS), mode 0111. A process executing the copy is not dumpable.
Result<Fd> sealedProgram(const std::string& path);

// `content` in memory, sealed likewise, for another process to read from the start.
Result<Fd> sealedData(std::string_view content);

// `size` bytes of memory as a file, for other processes to map and to change.
Result<Fd> memoryFile(uint64_t size);
// Seals the file: from now on no process changes its content or size through any descriptor. Fails
// while a writable mapping exists.
Result<> seal(const Fd& file);
// Opens the same file again for reading, with a separate offset.
Result<Fd> openAnew(const Fd& file);

}  // namespace cloister::linux
