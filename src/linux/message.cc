// SPDX-License-Identifier: Apache-2.0
#include "linux/message.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace cloister::linux {

Result<std::pair<Fd, Fd>> socketPair(int type) {
  int ends[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends) != 0) return failErrno("socketpair");
  return std::pair{Fd(ends[0]), Fd(ends[1])};
}

Result<> sendMessage(int socket, std::string_view data, std::span<const int> fds) {
  if (fds.size() > kMaxMessageFds) return fail(Code::kInternal, "sending: too many descriptors");
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxMessageFds * sizeof(int))] = {};
  iovec part{const_cast<char*>(data.data()), data.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno == EAGAIN) return fail(Code::kUnavailable, "sendmsg: the socket is full");
  if (sent < 0) return failErrno("sendmsg");
  if (static_cast<size_t>(sent) != data.size()) return fail(Code::kInternal, "sendmsg: cut short");
  return {};
}

namespace {

std::vector<Fd> takeFds(msghdr& message) {
  std::vector<Fd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Result<Message> receiveMessage(int socket, std::span<char> buffer) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxMessageFds * sizeof(int))];
  iovec part{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && errno == EAGAIN) return fail(Code::kUnavailable, "recvmsg: nothing there yet");
  if (size < 0) return failErrno("recvmsg");
  Message received{static_cast<size_t>(size), takeFds(message)};
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
    return fail(Code::kInternal, "recvmsg: the message was cut");
  }
  return received;
}

namespace {

// Kernels before 6.3 do not know MFD_EXEC, which is their default behaviour.
Result<Fd> newMemoryFile(const char* name, unsigned flags) {
  Fd file(::memfd_create(name, flags | MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file && errno == EINVAL && flags != 0) return newMemoryFile(name, 0);
  if (!file) return failErrno("memfd_create");
  return file;
}

}  // namespace

Result<> seal(const Fd& file) {
  constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) return failErrno("sealing a file in memory");
  return {};
}

Result<Fd> sealedProgram(const std::string& path) {
  const Fd from(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from) return failErrno("opening " + path);
  struct stat status{};
  if (::fstat(from.get(), &status) != 0) return failErrno("reading " + path);
  Fd copy = TRY(newMemoryFile("cloister-runner", MFD_EXEC));
  for (off_t left = status.st_size; left > 0;) {
    const ssize_t n = ::sendfile(copy.get(), from.get(), nullptr, static_cast<size_t>(left));
    if (n <= 0) return failErrno("copying " + path, n == 0 ? EIO : errno);
    left -= n;
  }
  if (::fchmod(copy.get(), 0111) != 0) return failErrno("fchmod of the runner");
  TRY(seal(copy));
  return copy;
}

Result<Fd> sealedData(std::string_view content) {
  Fd copy = TRY(newMemoryFile("cloister-data", 0));
  for (std::string_view rest = content; !rest.empty();) {
    const ssize_t n = ::write(copy.get(), rest.data(), rest.size());
    if (n <= 0) return failErrno("writing a file in memory");
    rest.remove_prefix(static_cast<size_t>(n));
  }
  if (::lseek(copy.get(), 0, SEEK_SET) != 0) return failErrno("lseek");
  TRY(seal(copy));
  return copy;
}

Result<Fd> memoryFile(uint64_t size) {
  Fd file = TRY(newMemoryFile("cloister-memory", 0));
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    return failErrno("sizing a file in memory");
  }
  return file;
}

Result<Fd> openAnew(const Fd& file) {
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  Fd anew(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!anew) return failErrno("opening a file in memory anew");
  return anew;
}

}  // namespace cloister::linux
