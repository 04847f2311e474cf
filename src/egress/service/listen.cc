// SPDX-License-Identifier: Apache-2.0
#include "egress/service/listen.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

namespace cloister::egress {

Result<Fd> listenUnix(const std::string& path, int type, uint32_t group) {
  const std::string doing = "listening at " + path;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.size() >= sizeof at.sun_path) return fail(Code::kInvalid, doing + ": path too long");
  std::memcpy(at.sun_path, path.data(), path.size());
  Fd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return failErrno(doing);
  ::unlink(path.c_str());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    return failErrno(doing);
  }
  constexpr mode_t kMode = 0660;
  if (::chmod(path.c_str(), kMode) != 0) return failErrno(doing + ": chmod");
  if (group != kSameGroup && ::lchown(path.c_str(), static_cast<uid_t>(-1), group) != 0) {
    return failErrno(doing + ": chown");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) return failErrno(doing);
  return socket;
}

Result<> checkPeerUser(int socket, uint32_t uid) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return failErrno("asking for the peer's credentials");
  }
  if (peer.uid == 0 || peer.uid == uid) return {};
  return fail(Code::kDenied, "uid " + std::to_string(peer.uid) + " may not connect here");
}

}  // namespace cloister::egress
