// SPDX-License-Identifier: Apache-2.0
#include "confine/microvm/devices.h"

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

#include "confine/door_link.h"
#include "confine/microvm/command.h"
#include "confine/spawn_loop.h"
#include "linux/credentials.h"
#include "linux/kvm.h"
#include "linux/message.h"
#include "linux/mounts.h"
#include "linux/network.h"
#include "linux/process.h"
#include "linux/tap.h"

namespace cloister::runtime::microvm {
namespace {

constexpr int kPatienceMillis = 5'000;
constexpr char kLinkDirectory[] = "net";

MountStep device(std::string name, unsigned major, unsigned minor, std::string_view why) {
  std::string host = "/dev/" + name;
  return {.op = MountStep::Op::kDevice,
          .target = std::move(name),
          .source = std::move(host),
          .why = why,
          .mode = 0666,
          .major = major,
          .minor = minor};
}

struct Caller {
  uid_t uid = ::geteuid();
  gid_t gid = ::getegid();
  bool own_users = uid != 0;
};

using Steps = std::vector<MountStep>;
using Build = Result<Fd> (*)(const Steps& steps, Caller caller);

// In the child: the tree is put together on top of /proc, as the sandboxes' root is.
Result<Fd> buildDevices(const Steps& steps, Caller caller) {
  if (caller.own_users) TRY(linux::mapSelf(0, caller.uid, caller.gid));
  TRY(linux::makePrivate());
  if (::chdir("/proc") != 0) return failErrno("entering /proc");
  for (const MountStep& step : steps)
    TRY(applyStep(step));
  return linux::cloneMount(".", true);
}

// Only where a link can be made with the device: tries it in a network of its own.
Result<Fd> buildLinkDevice(const Steps& steps, Caller caller) {
  TRY(buildDevices(steps, caller));
  Fd made = TRY(linux::cloneMount(kLinkDirectory, true));
  TRY(linux::enterNewNetwork());
  TRY(linux::makeTap(made.get(), kLinkName));
  return made;
}

[[noreturn]] void runBuilder(int socket, Build build, const Steps& steps, Caller caller) {
  std::ignore = linux::dieWithParent();
  const auto made = build(steps, caller);
  if (!made) {
    const std::string_view text = made.error().message;
    std::ignore = linux::sendMessage(socket, text.substr(0, kMaxAnswer));
    ::_exit(1);
  }
  const int fd = made->get();
  ::_exit(linux::sendMessage(socket, kDone, {&fd, 1}) ? 0 : 1);
}

Result<Fd> take(int socket) {
  pollfd said{socket, POLLIN, 0};
  if (::poll(&said, 1, kPatienceMillis) != 1) return fail(Code::kInternal, "it takes too long");
  std::array<char, kMaxAnswer> text{};
  auto message = TRY(linux::receiveMessage(socket, text));
  const std::string_view answer(text.data(), message.size);
  if (answer == kDone && message.fds.size() == 1) return std::move(message.fds.front());
  return fail(Code::kUnsupported, answer.empty() ? "it died" : std::string(answer));
}

}  // namespace

std::vector<MountStep> deviceSteps(const MoreFiles& more) {
  using Op = MountStep::Op;
  // A file takes whole pages.
  const uint64_t bytes = (64 << 10) + more.bytes + more.steps.size() * 4096;
  std::vector<MountStep> steps = {
      {.op = Op::kNew,
       .target = "",
       .source = "tmpfs",
       .why = "this VMM's devices, which no other process has",
       .options = {{"size", std::to_string(bytes)},
                   {"nr_inodes", std::to_string(16 + more.steps.size())},
                   {"mode", "755"}},
       .attributes = linux::kNoSuid | linux::kNoExec},
      device("null", 1, 3, "what it has for stdin"),
      device("urandom", 1, 9, "where a library asks for it by name"),
      device("kvm", linux::kKvmMajor, linux::kKvmMinor,
             "opened by name; only this VMM's mounts lead to it"),
      {.op = Op::kDirectory, .target = "shm", .why = "mount point"},
      {.op = Op::kDirectory, .target = "pts", .why = "mount point"}};
  steps.insert(steps.end(), more.steps.begin(), more.steps.end());
  steps.push_back({.op = Op::kSeal,
                   .target = "",
                   .why = "nothing can be added",
                   .attributes = linux::kReadOnly});
  return steps;
}

MoreFiles linkDevice() {
  MoreFiles more;
  more.steps.push_back({.op = MountStep::Op::kDirectory,
                        .target = kLinkDirectory,
                        .why = "where the kernel's documentation has the next"});
  more.steps.push_back(device(std::string(kLinkDirectory) + "/" + linux::kTunName, linux::kTunMajor,
                              linux::kTunMinor, "makes the machine's network link"));
  return more;
}

namespace {

// A detached mount that `build` makes of the steps, in a child.
Result<Fd> makeApart(Build build, const Steps& steps, std::string_view doing) {
  const Caller caller;
  auto [ours, theirs] = TRY(linux::socketPair(SOCK_SEQPACKET));
  const auto child = TRY(linux::cloneProcess(CLONE_NEWNS | (caller.own_users ? CLONE_NEWUSER : 0)));
  if (child.pid == 0) runBuilder(theirs.get(), build, steps, caller);
  theirs.reset();
  auto made = take(ours.get());
  std::ignore = linux::signalPidfd(child.pidfd.get(), SIGKILL);
  std::ignore = linux::reapPidfd(child.pidfd.get());
  if (!made) return std::unexpected(std::move(made).error().within(doing));
  return made;
}

}  // namespace

Result<Fd> makeDevices(const MoreFiles& more) {
  return makeApart(buildDevices, deviceSteps(more), "making a VMM's devices");
}

Result<Fd> makeLinkDevice() {
  Steps steps = {{.op = MountStep::Op::kNew,
                  .target = "",
                  .source = "tmpfs",
                  .why = "the device by which the spawner makes links",
                  .options = {{"size", "4k"}, {"nr_inodes", "8"}, {"mode", "755"}},
                  .attributes = linux::kNoSuid | linux::kNoExec}};
  for (MountStep& step : linkDevice().steps)
    steps.push_back(std::move(step));
  return makeApart(buildLinkDevice, steps, "making a network link");
}

MountStep attachDevices(int mount) {
  return {.op = MountStep::Op::kAttach,
          .target = "dev",
          .source = "tmpfs",
          .why = "this VMM's devices, which no other process has",
          .mount = mount};
}

// Shows the root as a whole, since its mounts cannot be cloned without the mounts below. Covers
// this process's own /proc and /dev. A compromised guest kernel may also ask for paths above
// (".."): nothing there is writable, including this process's memory.
std::vector<MountStep> showRoot() {
  using Op = MountStep::Op;
  constexpr uint64_t kSafe = linux::kReadOnly | linux::kNoSuid | linux::kNoDev;
  std::vector<MountStep> steps = {{.op = Op::kTree,
                                   .target = kShownRoot,
                                   .source = "/",
                                   .why = "what the machine's programs see",
                                   .attributes = kSafe}};
  for (const char* name : {"/proc", "/dev"}) {
    steps.push_back({.op = Op::kNew,
                     .target = std::string(kShownRoot) + name,
                     .source = "tmpfs",
                     .why = "the VMM's is not the machine's",
                     .options = {{"size", "4k"}, {"nr_inodes", "1"}, {"mode", "755"}},
                     .attributes = kSafe | linux::kNoExec});
  }
  steps.push_back({.op = Op::kSeal,
                   .target = "proc",
                   .why = "the server of the machine's files would write there for it",
                   .attributes = linux::kReadOnly});
  return steps;
}

std::vector<linux::LandlockRule> vmmRules(const SandboxSpec& spec) {
  using enum linux::LandlockAccess;
  std::vector<linux::LandlockRule> rules = {
      {"/", kReadExecute}, {"/dev/null", kWriteDevice}, {"/dev/kvm", kControl}};
  if (spec.guest_link != 0 && spec.guest_opens_link) {
    rules.push_back({std::string("/dev/") + kLinkDirectory + "/" + linux::kTunName, kControl});
  }
  if (spec.guest_sockets) rules.push_back({"/tmp", kSockets});
  // The disk has no path of its own; a link of /proc leads to the disk, and Landlock treats opening
  // the link like opening a path.
  if (spec.guest_opens_disk) rules.push_back({descriptorPath(kDiskFd), kReadFile});
  return rules;
}

}  // namespace cloister::runtime::microvm
