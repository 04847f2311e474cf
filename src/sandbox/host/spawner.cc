// SPDX-License-Identifier: Apache-2.0
#include "sandbox/host/spawner.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <tuple>
#include <vector>

#include "confine/spawn_loop.h"
#include "linux/credentials.h"
#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

constexpr int kProgramFd = kSpawnerPlan + 1;
constexpr int kAside = 64;

// Time for a killed, hanging spawner to end before being left behind.
constexpr int kReapMillis = 1000;

std::string_view bytesOf(const SpawnRequest& request) {
  return {reinterpret_cast<const char*>(&request), sizeof request};
}

struct Owner {
  uid_t uid;
  gid_t gid;
};

// The spawner, a copy of the node, keeps only the descriptors that its program needs, and the
// program.
Result<> keepOnly(const SpawnerPlan& plan, const Fd& control, const Fd& orders) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  std::vector<int> from(kSpawnerControl, null);
  for (const Fd* fd : {&control, &plan.confinement.runner, &orders, &plan.program})
    from.push_back(fd->get());
  for (int& fd : from)  // out of the way of the final numbers
    fd = ::fcntl(fd, F_DUPFD_CLOEXEC, kAside);
  int next = 0;
  for (const int fd : from)
    TRY(linux::moveFd(fd, next++));
  if (::fcntl(kProgramFd, F_SETFD, FD_CLOEXEC) != 0) return failErrno("keeping a descriptor");
  return linux::closeFrom(static_cast<unsigned>(next));
}

// Waits for the maps that the node writes, or writes the map of a single id.
Result<> takeIds(const SpawnerPlan& plan, Owner owner, const Fd& mapped) {
  if (!plan.rootless) return {};
  if (!plan.own_ids) return linux::mapSelf(0, owner.uid, owner.gid);
  return waitForIdMaps(mapped);
}

[[noreturn]] void execute(const SpawnerPlan& plan, Owner owner, const Fd& control, const Fd& orders,
                          const Fd& mapped) {
  auto done = takeIds(plan, owner, mapped);
  if (done) done = keepOnly(plan, control, orders);
  if (done) done = std::unexpected(linux::executeFd(kProgramFd, {"cloister-spawner"}, {}));
  for (const int fd : {kSpawnerControl, control.get()}) {
    if (linux::sendMessage(fd, done.error().message.substr(0, kMaxAnswer))) break;
  }
  ::_exit(1);
}

// The ids of the caller, as 0, and of the sandboxes, as they are; then the spawner goes on.
Result<> giveIds(const SpawnerPlan& plan, pid_t spawner, Owner owner, const Fd& mapping) {
  if (!plan.rootless || !plan.own_ids) return {};
  const linux::IdMap maps[] = {{0, owner.uid, 1}, {plan.ids.first, plan.ids.first, plan.ids.count}};
  TRY(linux::writeIdMaps(spawner, maps, false));
  if (::write(mapping.get(), "", 1) != 1) return failErrno("starting with id maps");
  return {};
}

}  // namespace

Result<std::unique_ptr<Spawner>> Spawner::start(const SpawnerPlan& plan) {
  const Fd orders = TRY(linux::sealedData(encodeSpawnerPlan(plan)));
  auto [ours, theirs] = TRY(linux::socketPair(SOCK_SEQPACKET));
  const Owner owner{::geteuid(), ::getegid()};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  const Fd mapped(ends[0]);
  Fd mapping(ends[1]);
  const uint64_t flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                         (plan.rootless ? CLONE_NEWUSER : 0);
  auto child = linux::cloneProcess(flags);
  if (!child) return std::unexpected(std::move(child).error().within("starting the spawner"));
  if (child->pid == 0) {
    mapping.reset();
    execute(plan, owner, theirs, orders, mapped);
  }
  theirs.reset();
  auto spawner = std::make_unique<Spawner>(std::move(ours), std::move(child->pidfd));
  if (auto given = giveIds(plan, child->pid, owner, mapping); !given) {
    return std::unexpected(std::move(given).error().within("starting the spawner"));
  }
  spawner->own_root_ = plan.confinement.root;
  if (auto ready = spawner->ready(); !ready) {
    return std::unexpected(std::move(ready).error().within("starting the spawner"));
  }
  if (::fcntl(spawner->socket(), F_SETFL, O_NONBLOCK) != 0) return failErrno("fcntl O_NONBLOCK");
  return spawner;
}

Result<> Spawner::ready() {
  std::array<char, kMaxAnswer + 1> text{};
  const auto message = TRY(linux::receiveMessage(socket_.get(), text));
  const std::string_view said(text.data(), message.size);
  if (said == kDone) return {};
  alive_ = false;
  return fail(Code::kUnsupported, std::string(said.empty() ? "it died" : said));
}

void Spawner::kill() {
  std::ignore = linux::signalPidfd(pidfd_.get(), SIGKILL);
}

Result<> Spawner::giveUp() {
  kill();
  alive_ = false;
  given_up_ = true;
  return fail(Code::kInternal, "spawning: the spawner did not answer");
}

Spawner::~Spawner() {
  kill();
  // The node must not hang if the kernel does not end the spawner.
  pollfd ended{pidfd_.get(), POLLIN, 0};
  if (given_up_ && ::poll(&ended, 1, kReapMillis) != 1) return;
  // A zygote is the spawner's child, and reaped there.
  std::ignore = linux::reapPidfd(pidfd_.get());
}

Result<> Spawner::request(const SpawnRequest& request, std::span<const int> fds) {
  if (!alive_) return fail(Code::kInternal, "spawning: the spawner died");
  auto sent = linux::sendMessage(socket_.get(), bytesOf(request), fds);
  if (sent || sent.error().code == Code::kUnavailable) return sent;
  alive_ = false;
  return fail(Code::kInternal, "spawning: the spawner died: " + sent.error().message);
}

Result<Fd> Spawner::answer() {
  if (!alive_) return fail(Code::kInternal, "spawning: the spawner died");
  std::array<char, kMaxAnswer + 1> text{};
  auto message = linux::receiveMessage(socket_.get(), text);
  if (!message && message.error().code == Code::kUnavailable) {
    return std::unexpected(std::move(message).error());
  }
  if (!message || message->size == 0) {
    alive_ = false;
    return fail(Code::kInternal, "spawning: the spawner died");
  }
  const std::string_view said(text.data(), message->size);
  if (said == kDone && message->fds.size() == 1) return std::move(message->fds.front());
  return fail(Code::kInternal, "spawning: " + std::string(said));
}

}  // namespace cloister::runtime
