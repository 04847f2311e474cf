// SPDX-License-Identifier: Apache-2.0
#include "linux/network.h"

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "base/fd.h"

namespace cloister::linux {

Result<> loopbackUp() {
  const Fd any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any) return failErrno("socket");
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (::ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) return failErrno("bringing up lo");
  return {};
}

Result<> nameHost(std::string_view name) {
  if (::sethostname(name.data(), name.size()) != 0) return failErrno("sethostname");
  return {};
}

}  // namespace cloister::linux
