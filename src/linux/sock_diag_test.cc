// SPDX-License-Identifier: Apache-2.0
#include "linux/sock_diag.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "base/file.h"
#include "linux/in_network.h"

namespace cloister::linux {
namespace {

struct Pair {
  Fd client;
  Fd accepted;
  TcpEnds ends;  // of the client
};

Pair connected() {
  Pair made;
  const Server server = serve("127.0.0.1");
  made.client = attempt(SOCK_STREAM, "127.0.0.1", server.port).socket;
  made.accepted.reset(::accept4(server.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
  sockaddr_in own{};
  socklen_t size = sizeof own;
  ::getsockname(made.client.get(), reinterpret_cast<sockaddr*>(&own), &size);
  made.ends = {.own = own.sin_addr,
               .own_port = ntohs(own.sin_port),
               .peer = own.sin_addr,
               .peer_port = server.port};
  return made;
}

uint64_t inodeOfDescriptor(const Fd& socket) {
  struct stat at{};
  ::fstat(socket.get(), &at);
  return at.st_ino;
}

TEST(SockDiag, FindsTheSocketAndItsProgram) {
  const int code = inNetwork([] {
    const auto diag = openSockDiag();
    if (!diag) return kNoNamespaces;
    const Pair pair = connected();
    const auto inode = inodeOf(diag->get(), pair.ends);
    if (!inode) return 1;
    if (*inode != inodeOfDescriptor(pair.client)) return 2;  // and not the accepted end
    const std::string own = base::readFile("/proc/self/comm", 64).value_or("");
    if (programWithSocket(::getpid(), *inode) + "\n" != own) return 3;
    return programWithSocket(::getpid(), *inode + 100'000).empty() ? 0 : 4;
  });
  if (code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

TEST(SockDiag, KnowsNoSocketOfAnotherNamespaceAndNoClosedOne) {
  const int code = inNetwork([] {
    const auto diag = openSockDiag();
    if (!diag) return kNoNamespaces;
    Pair pair = connected();
    if (!inodeOf(diag->get(), pair.ends)) return 1;
    if (!enterNewNetwork()) return 2;
    const auto other = openSockDiag();
    if (!other || inodeOf(other->get(), pair.ends)) return 3;
    pair.client.reset();
    pair.accepted.reset();
    const auto closed = inodeOf(diag->get(), pair.ends);
    return !closed && closed.error().code == Code::kNotFound ? 0 : 4;
  });
  if (code == kNoNamespaces) GTEST_SKIP() << "no user namespaces for this user";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace cloister::linux
