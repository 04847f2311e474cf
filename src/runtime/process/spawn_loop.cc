// SPDX-License-Identifier: Apache-2.0
#include "runtime/process/spawn_loop.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>

#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

static_assert(std::is_trivially_copyable_v<SpawnRequest>);

size_t fdsOf(const SpawnRequest& request) {
  if (request.what == SpawnRequest::What::kZygote) return 2;
  return 1 + request.spec.join_count + (request.spec.into_cgroup ? 1 : 0);
}

Result<> writeMaps(const SpawnRequest& request, pid_t pid) {
  const bool deny_setgroups = request.spec.deny_setgroups;
  if (request.what == SpawnRequest::What::kSandbox) {
    return linux::writeIdMaps(pid, {&request.spec.ids, 1}, deny_setgroups);
  }
  const linux::IdMap maps[] = {request.root, request.rest};
  return linux::writeIdMaps(pid, std::span(maps).first(request.rest.count > 0 ? 2 : 1),
                            deny_setgroups);
}

// In the child, its birth; here, its pidfd.
Result<Fd> spawn(const SpawnRequest& request, std::vector<Fd>& fds, std::optional<Birth>& birth) {
  if (fds.size() != fdsOf(request)) return fail(Code::kInternal, "spawning: wrong descriptors");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  Fd wait(ends[0]);
  const Fd mapped(ends[1]);
  const int cgroup = request.spec.into_cgroup ? fds.back().get() : -1;
  linux::Cloned child = TRY(linux::cloneProcess(sandboxNamespaces(), cgroup));
  if (child.pid == 0) {
    birth.emplace(request, std::move(fds), std::move(wait));
    return Fd();
  }
  auto maps = writeMaps(request, child.pid);
  if (!maps || ::write(mapped.get(), "", 1) != 1) {
    std::ignore = linux::signalPidfd(child.pidfd.get(), SIGKILL);
    return maps ? failErrno("telling of the id maps") : std::unexpected(std::move(maps).error());
  }
  return std::move(child.pidfd);
}

void answer(int control, const Result<Fd>& pidfd) {
  const int fd = pidfd ? pidfd->get() : -1;
  const std::span<const int> fds(&fd, pidfd ? 1 : 0);
  const std::string_view text =
      pidfd ? kDone : std::string_view(pidfd.error().message).substr(0, kMaxAnswer);
  if (!linux::sendMessage(control, text, fds)) ::_exit(1);
}

}  // namespace

Birth serveSpawns(int control) {
  for (;;) {
    SpawnRequest request;
    auto message =
        linux::receiveMessage(control, {reinterpret_cast<char*>(&request), sizeof request});
    if (!message || message->size != sizeof request) ::_exit(0);  // the node is gone
    std::optional<Birth> birth;
    const auto pidfd = spawn(request, message->fds, birth);
    if (birth) return *std::move(birth);
    answer(control, pidfd);
  }
}

Result<> waitForIdMaps(const Fd& mapped) {
  char none = 0;
  ssize_t n = 0;
  do {
    n = ::read(mapped.get(), &none, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1) return fail(Code::kInternal, "waiting for the id maps: the spawner failed");
  return {};
}

ConfineFds confineFds(Birth& birth) {
  ConfineFds own{std::move(birth.fds[0]), {}, std::move(birth.mapped)};
  for (size_t i = 0; i < birth.request.spec.join_count; ++i)
    own.cgroups.push_back(std::move(birth.fds[1 + i]));
  return own;
}

}  // namespace cloister::runtime
