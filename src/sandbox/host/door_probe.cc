// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/door_probe.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "confine/door.h"
#include "confine/door_link.h"
#include "linux/message.h"
#include "linux/netlink.h"
#include "linux/network.h"
#include "linux/process.h"
#include "linux/tap.h"
#include "linux/veth.h"

namespace cloister::runtime {
namespace {

constexpr int kProbeMillis = 5000;
constexpr std::string_view kAnyPool = "198.18.0.0/15";
// Names of the kernel's build options and modules.
constexpr std::string_view kForTproxy =
    "use a kernel with nf_tables, nft_tproxy and nft_reject_inet (CONFIG_NF_TABLES, "
    "CONFIG_NF_TABLES_INET, CONFIG_NFT_TPROXY, CONFIG_NFT_REJECT_INET), version 5.9 or later; "
    "where modules are not loaded on demand, load these";
constexpr std::string_view kForLog =
    "use a kernel with nft_log and nfnetlink_log (CONFIG_NFT_LOG, CONFIG_NETFILTER_NETLINK_LOG); "
    "where modules are not loaded on demand, load these";
constexpr std::string_view kForVeth =
    "use a kernel with veth (CONFIG_VETH); where modules are not loaded on demand, load this; root "
    "in a container needs the capability CAP_NET_ADMIN";
constexpr std::string_view kForTap =
    "use a kernel with tun (CONFIG_TUN), and give the service the device /dev/net/tun; where "
    "modules are not loaded on demand, load this; root in a container needs the capability "
    "CAP_NET_ADMIN";
constexpr std::string_view kForRoutes =
    "allow network namespaces and, for root in a container, the capabilities CAP_NET_ADMIN and "
    "CAP_NET_BIND_SERVICE";

Result<DoorSockets> openInNewNetwork() {
  TRY(linux::enterNewNetwork());
  return openDoor(TRY(doorOrder(kAnyPool, {})));
}

// What a child process does, and answers; an error's text is an answer, too.
using Attempt = std::string (*)();

// The answer has the same form as that of becomeDoor(), without descriptors.
std::string tryDoor() {
  const auto door = openInNewNetwork();
  if (!door) return door.error().message;
  const DoorAnswer answer = answerOf(*door);
  return {reinterpret_cast<const char*>(&answer), sizeof answer};
}

constexpr std::string_view kWorks = "works";

std::string textOf(const Result<>& result) {
  return result ? std::string(kWorks) : result.error().message;
}

std::string tryVeth() {
  return textOf([]() -> Result<> {
    TRY(linux::enterNewNetwork());
    const Fd netlink = TRY(linux::netlinkSocket(NETLINK_ROUTE));
    return linux::makeVeth(netlink.get(),
                           {.one = "probe", .other = kLinkName, .ethernet = kLinkEthernet});
  }());
}

std::string tryTap() {
  return textOf([]() -> Result<> {
    TRY(linux::enterNewNetwork());
    const Fd devices(::open("/dev/net", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!devices) return failErrno("opening /dev/net");
    TRY(linux::makeTap(devices.get(), kLinkName));
    return {};
  }());
}

Result<std::string> askChild(bool rootless, Attempt attempt) {
  auto [ours, theirs] = TRY(linux::socketPair(SOCK_SEQPACKET));
  const auto child = TRY(linux::cloneProcess(rootless ? CLONE_NEWUSER : 0));
  if (child.pid == 0) {
    std::ignore = linux::sendMessage(theirs.get(), attempt().substr(0, kMaxAnswer));
    ::_exit(0);
  }
  theirs.reset();
  pollfd answered{ours.get(), POLLIN, 0};
  const bool in_time = ::poll(&answered, 1, kProbeMillis) == 1;
  if (!in_time) std::ignore = linux::signalPidfd(child.pidfd.get(), SIGKILL);
  std::array<char, kMaxAnswer> text{};
  auto message = in_time ? linux::receiveMessage(ours.get(), text)
                         : fail(Code::kInternal, "the attempt took too long");
  std::ignore = linux::reapPidfd(child.pidfd.get());
  const size_t size = TRY(std::move(message)).size;
  if (size == 0) return fail(Code::kInternal, "the attempt ended without an answer");
  return std::string(text.data(), size);
}

model::Finding findingWith(model::Finding::State state, std::string detail,
                           std::string_view remedy) {
  return {"isolation", "network door", state, std::move(detail), std::string(remedy)};
}

}  // namespace

model::Finding doorFinding(const DoorAnswer& answer) {
  using State = model::Finding::State;
  std::string weaker(answer.weakened, answer.text_size);
  if (weaker.ends_with('\n')) weaker.pop_back();
  for (char& each : weaker)
    each = each == '\n' ? ';' : each;
  if (answer.transparent == 0) return findingWith(State::kReduced, weaker, kForTproxy);
  if (answer.has_log == 0) return findingWith(State::kReduced, weaker, kForLog);
  if (!weaker.empty()) return findingWith(State::kReduced, weaker, "enable IPv6 in the kernel");
  return findingWith(State::kOk, "tproxy, nft log", "");
}

model::Finding probeDoor(bool rootless) {
  using State = model::Finding::State;
  const auto said = askChild(rootless, tryDoor);
  if (!said) return findingWith(State::kMissing, said.error().message, kForRoutes);
  const auto answer = readDoorAnswer(*said);
  return answer ? doorFinding(*answer) : findingWith(State::kMissing, *said, kForRoutes);
}

model::Finding linkFinding(std::string_view name, std::string_view runtime,
                           std::string_view error) {
  using State = model::Finding::State;
  model::Finding finding{"isolation", "network " + std::string(name), State::kOk,
                         "for sandboxes of " + std::string(runtime), ""};
  if (error.empty()) return finding;
  finding.state = State::kMissing;
  finding.detail = "sandboxes of " + std::string(runtime) + " have no network: ";
  finding.detail += error;
  finding.remedy = runtime == "gvisor" ? kForVeth : kForTap;
  return finding;
}

namespace {

model::Finding probeLink(std::string_view name, std::string_view runtime, bool rootless,
                         Attempt attempt) {
  const auto said = askChild(rootless, attempt);
  const std::string text = said ? *said : said.error().message;
  return linkFinding(name, runtime, text == kWorks ? "" : text);
}

}  // namespace

model::Finding probeVeth(bool rootless) {
  return probeLink("veth", "gvisor", rootless, tryVeth);
}

model::Finding probeTap(bool rootless) {
  return probeLink("tap", "microvm", rootless, tryTap);
}

}  // namespace cloister::runtime
