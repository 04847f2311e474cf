// SPDX-License-Identifier: Apache-2.0
#include "guest/network.h"

#include <fcntl.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "guest/machine.h"
#include "wire/guest.h"

namespace cloister::guest {
namespace {

// The kernel's name of a machine's only interface.
constexpr char kInterface[] = "eth0";
constexpr char kOwnEtc[] = "/run/etc";
// Pause between looks for the interface, and number of looks: five seconds.
constexpr useconds_t kPause = 2'000;
constexpr int kLooks = 2'500;

void setAddress(sockaddr& at, uint32_t address) {
  sockaddr_in value{};
  value.sin_family = AF_INET;
  value.sin_addr.s_addr = htonl(address);
  memcpy(&at, &value, sizeof value);
}

// An address among the kernel's parameters.
uint32_t addressOf(const char* name) {
  const uint64_t value = parameter(name);
  if (value == 0 || value > UINT32_MAX) powerOff(name);
  return static_cast<uint32_t>(value);
}

ifreq requestFor(const char* interface) {
  ifreq request{};
  strcpy(request.ifr_name, interface);
  return request;
}

// The driver finds its device in its own time.
void waitForInterface(const Fd& any) {
  for (int look = 0; look < kLooks; ++look) {
    ifreq request = requestFor(kInterface);
    if (ioctl(any.get(), SIOCGIFINDEX, &request) == 0) return;
    usleep(kPause);
  }
  powerOff("no network interface: the image's kernel has no driver for virtio-net");
}

// The host's end takes no frames of IPv6.
void turnOffIpv6() {
  char path[64];
  snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s/disable_ipv6", kInterface);
  if (access(path, F_OK) == 0) writeText(path, "1");
}

void giveAddress(const Fd& any, uint32_t address) {
  ifreq request = requestFor(kInterface);
  setAddress(request.ifr_addr, address);
  if (ioctl(any.get(), SIOCSIFADDR, &request) != 0) giveUp("giving the interface its address");
  request = requestFor(kInterface);
  setAddress(request.ifr_netmask, UINT32_MAX);
  if (ioctl(any.get(), SIOCSIFNETMASK, &request) != 0) giveUp("giving the interface its network");
}

// Both ends have the same Ethernet address, which IFF_NOARP takes for the router's.
void bringUp(const Fd& any) {
  ifreq request = requestFor(kInterface);
  request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_NOARP;
  if (ioctl(any.get(), SIOCSIFFLAGS, &request) != 0) giveUp("bringing up the interface");
}

void addRoute(const Fd& any, uint32_t to, uint32_t mask, uint32_t gateway, unsigned short flags) {
  static char interface[] = "eth0";
  rtentry route{};
  setAddress(route.rt_dst, to);
  setAddress(route.rt_genmask, mask);
  setAddress(route.rt_gateway, gateway);
  route.rt_flags = flags;
  route.rt_dev = interface;
  if (ioctl(any.get(), SIOCADDRT, &route) != 0) giveUp("adding a route");
}

void writeNameServer(uint32_t address) {
  char path[64];
  char text[64];
  if (mkdir(kOwnEtc, 0755) != 0) giveUp(kOwnEtc);
  snprintf(path, sizeof path, "%s/resolv.conf", kOwnEtc);
  snprintf(text, sizeof text, "nameserver %u.%u.%u.%u\n", address >> 24, address >> 16 & 255,
           address >> 8 & 255, address & 255);
  const Fd file(open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  const auto size = static_cast<ssize_t>(strlen(text));
  if (!file || write(file.get(), text, strlen(text)) != size) giveUp(path);
}

}  // namespace

bool hasNetwork() {
  return getenv(wire::guest::kNetwork) != nullptr;
}

void prepareNetwork() {
  if (!hasNetwork()) return;
  loadModules(wire::guest::kNetworkModules);
  const uint32_t gateway = addressOf(wire::guest::kGateway);
  const Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any) giveUp("making a socket");
  waitForInterface(any);
  turnOffIpv6();
  giveAddress(any, addressOf(wire::guest::kNetwork));
  bringUp(any);
  addRoute(any, gateway, UINT32_MAX, 0, RTF_UP | RTF_HOST);
  addRoute(any, 0, 0, gateway, RTF_UP | RTF_GATEWAY);
  writeNameServer(gateway);
}

// An overlay without a writable layer: the image may have no such file, or a link.
void showNameServer() {
  char layers[128];
  char target[64];
  snprintf(target, sizeof target, "%s/etc", kRoot);
  snprintf(layers, sizeof layers, "lowerdir=%s:%s", kOwnEtc, target);
  constexpr unsigned long kFlags = MS_RDONLY | MS_NOSUID | MS_NODEV;
  if (mount("overlay", target, "overlay", kFlags, layers) != 0) giveUp("showing a name server");
}

}  // namespace cloister::guest
