// SPDX-License-Identifier: Apache-2.0
#include "linux/sock_diag.h"

#include <fcntl.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include <arpa/inet.h>
#include <dirent.h>

#include "base/file.h"
#include "linux/netlink.h"
#include "linux/proc_tree.h"

namespace cloister::linux {
namespace {

constexpr std::string_view kAsking = "asking for a socket";
constexpr size_t kMostTree = 256;  // processes

std::string question(const TcpEnds& ends) {
  inet_diag_req_v2 asked{};
  asked.sdiag_family = AF_INET;
  asked.sdiag_protocol = IPPROTO_TCP;
  asked.idiag_states = UINT32_MAX;
  asked.id.idiag_sport = htons(ends.own_port);
  asked.id.idiag_dport = htons(ends.peer_port);
  asked.id.idiag_src[0] = ends.own.s_addr;
  asked.id.idiag_dst[0] = ends.peer.s_addr;
  asked.id.idiag_cookie[0] = asked.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  NetlinkMessages messages;
  messages.begin(SOCK_DIAG_BY_FAMILY, 0, bytesOf(asked));
  return messages.bytes();
}

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// Whether a link of the directory is the socket. Counts the links in `seen`.
bool hasLink(const std::string& directory, const std::string& socket, size_t& seen) {
  const std::unique_ptr<DIR, CloseDir> links(::opendir(directory.c_str()));
  if (!links) return false;
  char text[64];
  while (const dirent* entry = ::readdir(links.get())) {
    if (seen++ >= kMostLinks) return false;
    const ssize_t size = ::readlinkat(::dirfd(links.get()), entry->d_name, text, sizeof text);
    if (size > 0 && std::string_view(text, static_cast<size_t>(size)) == socket) return true;
  }
  return false;
}

}  // namespace

Result<Fd> openSockDiag() {
  return netlinkSocket(NETLINK_SOCK_DIAG);
}

// The answer is there as soon as the question is sent: the kernel works within sendto(2).
Result<uint64_t> inodeOf(int socket, const TcpEnds& ends) {
  const std::string bytes = question(ends);
  const sockaddr_nl kernel{.nl_family = AF_NETLINK, .nl_pad = 0, .nl_pid = 0, .nl_groups = 0};
  if (::sendto(socket, bytes.data(), bytes.size(), 0, reinterpret_cast<const sockaddr*>(&kernel),
               sizeof kernel) < 0) {
    return failErrno(kAsking);
  }
  char buffer[1024];
  const ssize_t size = ::recv(socket, buffer, sizeof buffer, 0);
  if (size < 0) return failErrno(kAsking);
  std::string_view rest(buffer, static_cast<size_t>(size));
  NetlinkAnswer answer;
  inet_diag_msg found{};
  if (!nextMessage(rest, answer) || answer.type != SOCK_DIAG_BY_FAMILY ||
      answer.payload.size() < sizeof found) {
    return fail(Code::kNotFound, std::string(kAsking) + ": there is none");
  }
  std::memcpy(&found, answer.payload.data(), sizeof found);
  if (found.idiag_inode == 0) return fail(Code::kNotFound, std::string(kAsking) + ": it is closed");
  return found.idiag_inode;
}

std::string programWithSocket(pid_t root, uint64_t inode) {
  constexpr size_t kMostName = 64;
  const std::string socket = "socket:[" + std::to_string(inode) + "]";
  size_t seen = 0;
  for (const pid_t each : processesOf(root, kMostTree)) {
    const std::string process = "/proc/" + std::to_string(each);
    if (!hasLink(process + "/fd", socket, seen)) continue;
    std::string name = base::readFile(process + "/comm", kMostName).value_or("");
    while (name.ends_with('\n'))
      name.pop_back();
    return name;
  }
  return {};
}

}  // namespace cloister::linux
