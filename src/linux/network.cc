// SPDX-License-Identifier: Apache-2.0
#include "linux/network.h"

#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

namespace cloister::linux {

namespace {

// A socket refers to the network namespace in which the socket was made.
Result<Fd> anySocket() {
  Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any) return failErrno("socket");
  return any;
}

}  // namespace

Result<Fd> ownNetwork() {
  const Fd any = TRY(anySocket());
  Fd network(::ioctl(any.get(), SIOCGSKNS));
  if (!network) return failErrno("ioctl SIOCGSKNS");
  return network;
}

Result<> enterNewNetwork() {
  if (::unshare(CLONE_NEWNET) != 0) return failErrno("unshare CLONE_NEWNET");
  return raiseLoopback();
}

Result<> raiseLoopback() {
  const Fd any = TRY(anySocket());
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) return failErrno("bringing up lo");
  return {};
}

Result<> enterNetwork(int network) {
  if (::setns(network, CLONE_NEWNET) != 0) return failErrno("setns CLONE_NEWNET");
  return {};
}

Result<> nameHost(std::string_view name) {
  if (::sethostname(name.data(), name.size()) != 0) return failErrno("sethostname");
  return {};
}

}  // namespace cloister::linux
