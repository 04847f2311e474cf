// SPDX-License-Identifier: Apache-2.0
#include "runner/nest.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string.h>

#include "base/fd.h"
#include "runner/carry.h"
#include "wire/files.h"
#include "wire/guest.h"

namespace cloister::runner {
namespace {

int the_nester = -1;

// Returns errno.
int ask(int socket, char** argv, int stream) {
  static char packet[wire::guest::kMaxParameters];
  size_t size = 0;
  for (char** at = argv + 1; *at != nullptr; ++at) {
    const size_t length = strlen(*at) + 1;
    if (length > sizeof packet - size) return E2BIG;
    memcpy(packet + size, *at, length);
    size += length;
  }
  iovec bytes{packet, size};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &stream, sizeof stream);
  ssize_t n = 0;
  do {
    n = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  return n < 0 ? errno : 0;
}

}  // namespace

void takeNester(int fd) {
  the_nester = fd;
}

int nester() {
  return the_nester;
}

int nest(int socket, char** argv) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return wire::files::kFailed;
  const Fd ours(ends[0]);
  Fd theirs(ends[1]);
  if (ask(socket, argv, theirs.get()) != 0) return wire::files::kFailed;
  theirs.reset();
  return carry(ours.get()) == 0 ? 0 : wire::files::kFailed;
}

}  // namespace cloister::runner
