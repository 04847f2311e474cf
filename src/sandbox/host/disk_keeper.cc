// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/disk_keeper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>
#include <string_view>
#include <tuple>

#include "confine/spawn_loop.h"
#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

// The keeper's descriptors besides 0, 1 and 2.
constexpr int kSocket = 3;
constexpr int kDirectory = 4;
constexpr int kFormat = 5;
constexpr int kAside = 64;  // first number while descriptors are rearranged

constexpr char letterOf(Code code) {
  return static_cast<char>('A' + static_cast<int>(code));
}

// Codes on which a requester can act. All other failures are the node's, such as a missing device.
Code codeOf(char letter) {
  for (const Code code : {Code::kNoSpace, Code::kQuota, Code::kUnsupported}) {
    if (letterOf(code) == letter) return code;
  }
  return Code::kInternal;
}

// The keeper, a copy of the node, closes all descriptors but these.
void keepOnly(int socket, const DiskOrder& order) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int from[] = {null, null, null, socket, order.directory, order.format};
  std::array<int, std::size(from)> aside{};
  for (size_t i = 0; i < aside.size(); ++i)
    aside[i] = from[i] < 0 ? -1 : ::fcntl(from[i], F_DUPFD_CLOEXEC, kAside);
  for (size_t i = 0; i < aside.size(); ++i) {
    const int to = static_cast<int>(i);
    if (aside[i] < 0 ? to <= kDirectory : ::dup3(aside[i], to, O_CLOEXEC) != to) ::_exit(1);
  }
  if (!linux::closeFrom(order.format < 0 ? kFormat : kFormat + 1)) ::_exit(1);
}

void resetProcess() {
  ::setsid();
  linux::askForSlice({});
  for (int signal = 1; signal < NSIG; ++signal)
    ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

Result<linux::EncryptedDisk> makeAndTell(const DiskOrder& order) {
  Fd made;
  if (order.format < 0) made = TRY(linux::formatDisk(order.shape));
  const int format = made ? made.get() : kFormat;
  auto disk = TRY(linux::EncryptedDisk::make(kDirectory, order.shape, format, order.options));
  const Fd mount = disk.takeMount();
  const int fds[] = {mount.get(), made.get()};
  // If the node no longer listens, the socket ends next.
  std::ignore = linux::sendMessage(kSocket, kDone, std::span(fds).first(made ? 2 : 1));
  return disk;
}

[[noreturn]] void runKeeper(int socket, const DiskOrder& order) {
  keepOnly(socket, order);
  resetProcess();
  auto disk = makeAndTell(order);
  if (!disk) {
    const std::string text = letterOf(disk.error().code) + disk.error().message;
    std::ignore = linux::sendMessage(kSocket, std::string_view(text).substr(0, kMaxAnswer));
    ::_exit(1);
  }
  char none = 0;
  while (::recv(kSocket, &none, 1, 0) < 0 && errno == EINTR) {
  }
  disk->destroy();
  ::_exit(0);
}

}  // namespace

Result<DiskKeeper> DiskKeeper::start(const DiskOrder& order) {
  auto [ours, theirs] = TRY(linux::socketPair(SOCK_SEQPACKET));
  auto child = linux::cloneProcess(0);
  if (!child) return std::unexpected(std::move(child).error());
  if (child->pid == 0) runKeeper(theirs.get(), order);
  if (::fcntl(ours.get(), F_SETFL, O_NONBLOCK) != 0) return failErrno("fcntl O_NONBLOCK");
  return DiskKeeper(std::move(ours), std::move(child->pidfd));
}

Result<DiskKeeper::Made> DiskKeeper::answer() {
  std::array<char, kMaxAnswer + 1> text{};
  auto message = TRY(linux::receiveMessage(socket_.get(), text));
  const std::string_view said(text.data(), message.size);
  if (said.empty()) return fail(Code::kInternal, "its keeper died");
  if (said != kDone) return fail(codeOf(said.front()), std::string(said.substr(1)));
  if (message.fds.empty()) return fail(Code::kInternal, "its keeper sent no mount");
  Made made{std::move(message.fds[0]), {}};
  if (message.fds.size() > 1) made.format = std::move(message.fds[1]);
  return made;
}

void DiskKeeper::dismiss() {
  ::shutdown(socket_.get(), SHUT_RDWR);
  socket_.reset();  // drops an unread answer, which contains the mount
}

void DiskKeeper::reap() {
  std::ignore = linux::reapPidfd(process_.get());
}

}  // namespace cloister::runtime
