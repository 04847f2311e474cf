// SPDX-License-Identifier: Apache-2.0
#include "runner/tools.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include <string.h>

#include "base/fd.h"
#include "wire/codec.h"
#include "wire/files.h"

namespace cloister::runner {
namespace {

using wire::files::kMaxToolRequest;
using wire::files::kMostToolCallers;
constexpr size_t kHead = 2 * sizeof(uint32_t);
// A caller that does not read delays the others for so long, and is then disconnected.
constexpr timeval kPatience{10, 0};

// A connection. Collects bytes up to the end of a line, which is a request, and reads no more
// before the answer. Zero at first, which costs no memory until use.
struct Caller {
  Fd fd;
  size_t size = 0;     // gathered
  bool asked = false;  // and waits for its answer
  bool deaf = false;   // sent too much: further bytes are dropped
  char bytes[kMaxToolRequest];

  void hangUp() {
    fd.reset();
    size = 0;
    asked = false;
    deaf = false;
  }
};
Caller the_callers[kMostToolCallers];

// State of the answer being received.
uint32_t the_caller = 0;
size_t the_rest = 0;
char the_piece[65'536];

int listenForCalls(Fd& fd) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path + 1, wire::files::kToolSocket, sizeof wire::files::kToolSocket - 1);
  fd.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return errno;
  const auto size =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + sizeof wire::files::kToolSocket);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) return errno;
  return listen(fd.get(), static_cast<int>(kMostToolCallers)) == 0 ? 0 : errno;
}

Caller* freeCaller() {
  for (Caller& caller : the_callers) {
    if (!caller.fd) return &caller;
  }
  return nullptr;
}

void takeCall(int listener) {
  Caller* caller = freeCaller();
  Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd || caller == nullptr) return;
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &kPatience, sizeof kPatience);
  caller->fd = static_cast<Fd&&>(fd);
}

bool writeAll(int to, const char* bytes, size_t size) {
  while (size > 0) {
    const ssize_t n = send(to, bytes, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

// Forwards a complete line, if any. Returns errno.
int passOn(Answer& answer, uint32_t number) {
  Caller& caller = the_callers[number];
  const auto* end = static_cast<const char*>(memchr(caller.bytes, '\n', caller.size));
  if (end == nullptr) {
    if (caller.size == sizeof caller.bytes) {
      writeAll(caller.fd.get(), wire::files::kToolTooLong, sizeof wire::files::kToolTooLong - 1);
      shutdown(caller.fd.get(), SHUT_WR);
      caller.deaf = true;
    }
    return 0;
  }
  const auto length = static_cast<size_t>(end - caller.bytes);
  char head[kHead];
  wire::Writer w(head, sizeof head);
  w.u32(number);
  w.u32(static_cast<uint32_t>(length));
  int error = answer.put(w.view());
  if (error == 0) error = answer.put({caller.bytes, length});
  if (error == 0) error = answer.flush();
  caller.size -= length + 1;
  memmove(caller.bytes, end + 1, caller.size);
  caller.asked = true;
  return error;
}

int hear(Answer& answer, uint32_t number) {
  Caller& caller = the_callers[number];
  if (caller.deaf) caller.size = 0;
  const ssize_t n = recv(caller.fd.get(), caller.bytes + caller.size,
                         sizeof caller.bytes - caller.size, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  if (n <= 0) {
    caller.hangUp();
    return 0;
  }
  if (caller.deaf) return 0;
  caller.size += static_cast<size_t>(n);
  return passOn(answer, number);
}

bool readHead() {
  char head[kHead];
  for (size_t have = 0; have < sizeof head;) {
    const ssize_t n = read(STDIN_FILENO, head + have, sizeof head - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    have += static_cast<size_t>(n);
  }
  wire::Reader r({head, sizeof head});
  the_caller = r.u32();
  the_rest = r.u32();
  return the_caller < kMostToolCallers;
}

// A piece of an answer. False at the end of all.
bool takeAnswer(Answer& answer, int& error) {
  if (the_rest == 0 && !readHead()) return false;
  if (the_rest > 0) {
    const size_t most = the_rest < sizeof the_piece ? the_rest : sizeof the_piece;
    const ssize_t n = read(STDIN_FILENO, the_piece, most);
    if (n < 0 && errno == EINTR) return true;
    if (n <= 0) return false;
    the_rest -= static_cast<size_t>(n);
    Caller& caller = the_callers[the_caller];
    // A disconnected caller gets no answer.
    if (caller.asked && !writeAll(caller.fd.get(), the_piece, static_cast<size_t>(n))) {
      shutdown(caller.fd.get(), SHUT_RDWR);
    }
  }
  if (the_rest == 0) {
    Caller& caller = the_callers[the_caller];
    caller.asked = false;
    error = passOn(answer, the_caller);
  }
  return true;
}

}  // namespace

int serveTools(Answer& answer) {
  Fd listener;
  if (const int error = listenForCalls(listener); error != 0) return error;
  signal(SIGPIPE, SIG_IGN);
  int error = answer.end(0);
  if (error == 0) error = answer.flush();
  while (error == 0) {
    pollfd fds[2 + kMostToolCallers];
    fds[0] = {STDIN_FILENO, POLLIN, 0};
    fds[1] = {freeCaller() != nullptr ? listener.get() : -1, POLLIN, 0};
    for (uint32_t i = 0; i < kMostToolCallers; ++i)
      fds[2 + i] = {the_callers[i].asked ? -1 : the_callers[i].fd.get(), POLLIN, 0};
    if (poll(fds, 2 + kMostToolCallers, -1) < 0 && errno != EINTR) return errno;
    if (fds[0].revents != 0 && !takeAnswer(answer, error)) return 0;
    if (fds[1].revents != 0) takeCall(listener.get());
    for (uint32_t i = 0; i < kMostToolCallers && error == 0; ++i) {
      if (fds[2 + i].revents != 0 && the_callers[i].fd) error = hear(answer, i);
    }
  }
  return error;
}

}  // namespace cloister::runner
