// SPDX-License-Identifier: Apache-2.0
#include "confine/become_door.h"

#include <linux/netlink.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>

#include "confine/door_rules.h"
#include "linux/message.h"
#include "linux/netlink.h"
#include "linux/network.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

static_assert(std::is_trivially_copyable_v<DoorAnswer> && sizeof(DoorAnswer) == kMaxAnswer);
static_assert(kMaxPortListeners + 3 <= linux::kMaxMessageFds);

// Indices of the birth's descriptors.
constexpr size_t kDoorAnswer = 0;
constexpr size_t kDoorSandbox = 1;

// The network namespace belongs to the user namespace of the spawner, or of a zygote below: this
// process has its capabilities there without entering any user namespace. Nothing of this process
// is visible inside: it stays in the spawner's pid namespace. CLONE_NEWPID is a check: the kernel
// lets a process join only a pid namespace below its own, so a sandbox of another node, or another
// container of the host, is out of reach.
Result<DoorSockets> openInside(const Birth& birth) {
  TRY(linux::joinNamespaces(birth.fds[kDoorSandbox].get(), CLONE_NEWNET | CLONE_NEWPID));
  return openDoor(birth.request.door);
}

std::vector<int> descriptorsOf(const DoorSockets& door) {
  std::vector<int> fds;
  for (const Fd& each : door.listeners)
    fds.push_back(each.get());
  fds.push_back(door.dns.get());
  if (door.log) fds.push_back(door.log.get());
  if (door.diag) fds.push_back(door.diag.get());
  return fds;
}

}  // namespace

DoorAnswer answerOf(const DoorSockets& door) {
  DoorAnswer answer;
  answer.transparent = door.transparent ? 1 : 0;
  answer.listeners = static_cast<uint32_t>(door.listeners.size());
  answer.has_log = door.log ? 1 : 0;
  answer.has_diag = door.diag ? 1 : 0;
  std::string text;
  for (const std::string& each : door.weakened)
    text += each + '\n';
  answer.text_size = static_cast<uint32_t>(std::min(text.size(), DoorAnswer::kMaxText));
  std::memcpy(answer.weakened, text.data(), answer.text_size);
  return answer;
}

Result<DoorAnswer> readDoorAnswer(std::string_view bytes) {
  DoorAnswer answer;
  if (bytes.size() != sizeof answer) return fail(Code::kInternal, "its answer is not whole");
  std::memcpy(&answer, bytes.data(), sizeof answer);
  if (answer.text_size > DoorAnswer::kMaxText || answer.listeners == 0 ||
      answer.listeners > kMaxPortListeners) {
    return fail(Code::kInternal, "its answer is not whole");
  }
  return answer;
}

namespace {

std::vector<std::string> linesOf(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

Result<DoorSockets> doorOf(std::string_view bytes, std::vector<Fd> fds) {
  if (fds.empty()) {
    return fail(Code::kInternal, std::string(bytes.empty() ? "it took too long" : bytes));
  }
  const DoorAnswer answer = TRY(readDoorAnswer(bytes));
  const bool has_log = answer.has_log != 0;
  const bool has_diag = answer.has_diag != 0;
  if (fds.size() != answer.listeners + 1 + size_t{has_log} + size_t{has_diag}) {
    return fail(Code::kInternal, "its answer is not whole");
  }
  DoorSockets door;
  door.transparent = answer.transparent != 0;
  const auto last = [&fds] {
    Fd fd = std::move(fds.back());
    fds.pop_back();
    return fd;
  };
  if (has_diag) door.diag = last();
  if (has_log) door.log = last();
  door.dns = last();
  door.listeners = std::move(fds);
  door.weakened = linesOf({answer.weakened, answer.text_size});
  return door;
}

namespace {

// After the first door of a spawner, its own network namespace has the standing rules.
void keepHooks(const Fd& home) {
  if (!linux::enterNetwork(home.get())) return;
  const auto netlink = linux::netlinkSocket(NETLINK_NETFILTER);
  if (netlink) std::ignore = linux::nft::install(netlink->get(), standingRules());
}

}  // namespace

void becomeDoor(Birth& birth) {
  const int answer_socket = birth.fds[kDoorAnswer].get();
  const auto home = linux::ownNetwork();
  const auto door = openInside(birth);
  if (door) {
    const DoorAnswer answer = answerOf(*door);
    const std::string_view bytes(reinterpret_cast<const char*>(&answer), sizeof answer);
    std::ignore = linux::sendMessage(answer_socket, bytes, descriptorsOf(*door));
  } else {
    std::ignore = linux::sendMessage(answer_socket, door.error().message.substr(0, kMaxAnswer));
  }
  if (home && door && door->transparent) keepHooks(*home);
  ::_exit(0);
}

}  // namespace cloister::runtime
