// SPDX-License-Identifier: Apache-2.0
#include "confine/spawn_loop.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <type_traits>

#include "confine/door_link.h"
#include "confine/gvisor/become_gvisor.h"
#include "confine/gvisor/become_saver.h"
#include "confine/microvm/command.h"
#include "linux/message.h"
#include "linux/network.h"
#include "linux/process.h"
#include "linux/tap.h"

namespace cloister::runtime {
namespace {

static_assert(std::is_trivially_copyable_v<SpawnRequest>);

size_t fdsOf(const SpawnRequest& request) {
  if (request.what == SpawnRequest::What::kZygote) return 2;
  return size_t{1} + request.guest_fds + (request.spec.walled ? 1 : 0) +
         (request.spec.on_disk ? 1 : 0) + (request.spec.shares ? 1 : 0) + request.spec.join_count +
         (request.spec.into_cgroup ? 1 : 0);
}

// Whether the process enters the namespaces of an existing sandbox instead of making its own.
bool joins(const SpawnRequest& request) {
  return request.what == SpawnRequest::What::kGvisorSave ||
         request.what == SpawnRequest::What::kWorkspace ||
         request.what == SpawnRequest::What::kDoor || request.what == SpawnRequest::What::kLayers;
}

// Whether the process gets the id map of its sandbox instead of a separate map.
bool mapsSandbox(const SpawnRequest& request) {
  return request.what == SpawnRequest::What::kSandbox ||
         request.what == SpawnRequest::What::kMicrovm;
}

// Whether the process owns its network namespace: a zygote makes networks, and runsc takes its
// interface over.
bool ownsNetwork(const SpawnRequest& request) {
  return request.what == SpawnRequest::What::kZygote ||
         (request.what == SpawnRequest::What::kGvisor && request.spec.guest_link != 0);
}

// The code of each kind takes these descriptors by number.
bool hasItsDescriptors(const SpawnRequest& request) {
  using What = SpawnRequest::What;
  switch (request.what) {
    case What::kSandbox:
    case What::kZygote:
      return request.guest_fds == 0;
    case What::kGvisor:
      return request.guest_fds >= kGvisorFds;
    case What::kMicrovm:
      return request.guest_fds > (request.spec.guest_link != 0 ? microvm::linkIndex(request.spec)
                                                               : size_t{microvm::kOpened});
    case What::kGvisorSave:
      return request.guest_fds == kSaverFds;
    case What::kWorkspace:
    case What::kDoor:
    case What::kLayers:
      return request.guest_fds == 1;
  }
  return false;
}

bool within(const linux::IdMap& map, IdRange ids) {
  return map.count > 0 && map.count <= ids.count && map.outside >= ids.first &&
         map.outside - ids.first <= ids.count - map.count;
}

// The directory of a child in `outer_proc`, where the child has another number: its pidfd tells it
// (proc(5), /proc/PID/fdinfo).
Result<Fd> directoryIn(int outer_proc, const linux::Cloned& child) {
  constexpr std::string_view kPid = "Pid:\t";
  const std::string info = "self/fdinfo/" + std::to_string(child.pidfd.get());
  const Fd file(::openat(outer_proc, info.c_str(), O_RDONLY | O_CLOEXEC));
  char text[1024];
  const ssize_t n = file ? ::read(file.get(), text, sizeof text) : -1;
  if (n < 0) return failErrno("reading the outer " + info);
  const std::string_view lines(text, static_cast<size_t>(n));
  const size_t at = lines.find(kPid);
  if (at == std::string_view::npos) return fail(Code::kInternal, info + " has no pid");
  const std::string_view rest = lines.substr(at + kPid.size());
  const std::string pid(rest.substr(0, rest.find('\n')));
  Fd directory(::openat(outer_proc, pid.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return failErrno("opening the outer /proc/" + pid);
  return directory;
}

Result<> writeMaps(const SpawnRequest& request, const linux::Cloned& child, int outer_proc) {
  if (joins(request)) return {};
  const auto write = [&](std::span<const linux::IdMap> maps) -> Result<> {
    const bool deny_setgroups = request.spec.deny_setgroups;
    if (outer_proc < 0) return linux::writeIdMaps(child.pid, maps, deny_setgroups);
    const Fd directory = TRY(directoryIn(outer_proc, child));
    return linux::writeIdMapsIn(directory.get(), maps, deny_setgroups);
  };
  if (mapsSandbox(request)) return write({&request.spec.ids, 1});
  const linux::IdMap maps[] = {request.root, request.rest};
  return write(std::span(maps).first(request.rest.count > 0 ? 2 : 1));
}

// Network namespaces of new processes. Making a network namespace takes as long as all other steps
// together, so the next is made while no request waits.
class Networks {
 public:
  // Makes the next network while no request waits.
  void makeSpare(int control) {
    if (spare_ || !lulls(control) || !home()) return;
    const auto entered = linux::enterNewNetwork();
    auto spare = entered ? linux::ownNetwork() : std::unexpected(entered.error());
    if (spare) spare_ = *std::move(spare);
    comeHome();
  }

  // Enters an unused network namespace.
  Result<> enterNext() {
    TRY(home());
    const Fd spare = std::move(spare_);
    return spare ? linux::enterNetwork(spare.get()) : linux::enterNewNetwork();
  }

  // Exits on failure: two sandboxes in the same network would be worse than none.
  void comeHome() {
    if (home_ && !linux::enterNetwork(home_.get())) ::_exit(1);
  }

 private:
  static bool lulls(int control) {
    pollfd request{control, POLLIN, 0};
    return ::poll(&request, 1, static_cast<int>(kLull.count())) == 0;
  }

  Result<> home() {
    if (!home_) home_ = TRY(linux::ownNetwork());
    return {};
  }

  Fd home_;
  Fd spare_;
};

// In the network namespace of a new machine: makes its network link. The device can be opened only
// here: a sandbox has no right over its network.
Result<> makeLink(Birth& birth) {
  const SandboxSpec& spec = birth.request.spec;
  if (birth.request.what != SpawnRequest::What::kMicrovm || spec.guest_link == 0) return {};
  Fd& device = birth.fds[microvm::linkIndex(spec)];
  Fd link = TRY(linux::makeTap(device.get(), kLinkName));
  if (spec.guest_opens_link) return linux::leaveTap(link, spec.ids.outside);
  device = std::move(link);
  return {};
}

// Makes a process that becomes something for `birth`. Returns pid 0 in the child.
using Clone = std::function<Result<linux::Cloned>(uint64_t namespaces, Birth& birth)>;

// Makes the user namespace as the sandbox's own user, so that the kernel's limits per user count
// for this sandbox alone.
Result<linux::Cloned> makeOwned(const Clone& how, uint64_t namespaces, Birth& birth) {
  const bool zygote = birth.request.what == SpawnRequest::What::kZygote;
  const uint32_t owner = zygote ? birth.request.root.outside : birth.request.spec.ids.outside;
  if (owner == ::geteuid()) return how(namespaces, birth);
  linux::OtherUser other;
  auto became = other.become(owner);
  auto child = became ? how(namespaces, birth) : std::unexpected(std::move(became).error());
  if ((!child || child->pid != 0) && !other.leave()) ::_exit(1);
  return child;
}

Result<linux::Cloned> makeInNetwork(const Clone& how, Networks& networks, Birth& birth) {
  if (joins(birth.request)) return how(0, birth);
  if (ownsNetwork(birth.request)) return makeOwned(how, sandboxNamespaces(), birth);
  auto entered = networks.enterNext();
  if (entered) entered = makeLink(birth);
  auto child = entered ? makeOwned(how, sandboxNamespaces() & ~uint64_t{CLONE_NEWNET}, birth)
                       : std::unexpected(std::move(entered).error());
  if (!child || child->pid != 0) networks.comeHome();
  return child;
}

// The process made for a request, and the pipe's end that announces its id maps.
struct Made {
  linux::Cloned process;
  Fd mapped;
};

Result<Made> make(const Clone& how, Networks& networks, std::optional<Birth>& birth,
                  int outer_proc) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  birth->mapped.reset(ends[0]);
  Made made{{}, Fd(ends[1])};
  made.process = TRY(makeInNetwork(how, networks, *birth));
  if (made.process.pid == 0) return made;
  auto maps = writeMaps(birth->request, made.process, outer_proc);
  if (maps) return made;
  std::ignore = linux::signalPidfd(made.process.pidfd.get(), SIGKILL);
  return std::unexpected(std::move(maps).error());
}

void answer(int control, const Result<Made>& made) {
  const int fd = made ? made->process.pidfd.get() : -1;
  const std::span<const int> fds(&fd, made ? 1 : 0);
  const std::string_view text =
      made ? kDone : std::string_view(made.error().message).substr(0, kMaxAnswer);
  if (!linux::sendMessage(control, text, fds)) ::_exit(1);
}

std::optional<Birth> receive(int control, IdRange ids) {
  SpawnRequest request;
  auto message =
      linux::receiveMessage(control, {reinterpret_cast<char*>(&request), sizeof request});
  if (!message || message->size != sizeof request) ::_exit(0);  // the node has ended
  if (!isSound(request, ids) || message->fds.size() != fdsOf(request)) return std::nullopt;
  return Birth{request, std::move(message->fds), {}};
}

// Returns in each new process. `settle` is called once the process has all its descriptors and
// maps.
Birth serve(int control, IdRange ids, const Clone& how, const std::function<void()>& settle,
            int outer_proc) {
  Networks networks;
  for (;;) {
    networks.makeSpare(control);
    std::optional<Birth> birth = receive(control, ids);
    auto made = birth ? make(how, networks, birth, outer_proc)
                      : fail(Code::kInternal, "a request that is not sound");
    if (made && made->process.pid == 0) return *std::move(birth);
    answer(control, made);
    if (made && ::write(made->mapped.get(), "", 1) != 1) {
      std::ignore = linux::signalPidfd(made->process.pidfd.get(), SIGKILL);
    }
    made = {};
    settle();
  }
}

// Waits without writing to the memory, which still belongs to the parent.
void waitForTurn(const Fd& mapped) {
  pollfd told{mapped.get(), POLLIN, 0};
  while (::poll(&told, 1, -1) < 0) {
  }
}

// A copy of the descriptor numbers, for a process with its own descriptor table but shared memory.
Birth aliasOf(const Birth& birth) {
  Birth alias{birth.request, {}, Fd(birth.mapped.get())};
  for (const Fd& fd : birth.fds)
    alias.fds.emplace_back(fd.get());
  return alias;
}

void forget(Birth& alias) {
  std::ignore = alias.mapped.release();
  for (Fd& fd : alias.fds)
    std::ignore = fd.release();
}

}  // namespace

bool isSound(const SpawnRequest& request, IdRange ids) {
  using What = SpawnRequest::What;
  const SandboxSpec& spec = request.spec;
  if (request.what > What::kLayers || spec.limit_count > SandboxSpec::kMaxLimits ||
      spec.guest_begins > Beginning::kImage || spec.writes > model::Walls::Writes::kNone)
    return false;
  if (!hasItsDescriptors(request)) return false;
  if (request.what == What::kDoor && !isSound(request.door)) return false;
  if (request.what == What::kLayers && !isSound(request.layers)) return false;
  if (joins(request)) return true;  // the ids are those of the joined sandbox
  if (mapsSandbox(request)) return within(request.spec.ids, ids);
  if (request.what == What::kGvisor && !within(request.spec.ids, ids)) return false;
  return within(request.root, ids) && (request.rest.count == 0 || within(request.rest, ids));
}

Birth serveSpawns(int control, IdRange ids, int outer_proc) {
  const Clone fork = [](uint64_t namespaces, Birth& birth) {
    const int cgroup = birth.request.spec.into_cgroup ? birth.fds.back().get() : -1;
    return linux::cloneProcess(namespaces, cgroup);
  };
  return serve(control, ids, fork, [] {}, outer_proc);
}

void serveSharing(int control, std::span<char> stack, void (*become)(Birth& birth)) {
  struct Start {
    void (*become)(Birth& birth);
    Birth birth;
  } start{become, {}};
  linux::SharingProcess process;
  const Clone share = [&](uint64_t namespaces, Birth& birth) {
    start.birth = aliasOf(birth);
    const auto run = [](void* of) -> int {
      Start& start = *static_cast<Start*>(of);
      waitForTurn(start.birth.mapped);
      start.become(start.birth);
      ::_exit(1);
    };
    return process.start(namespaces, stack, run, &start);
  };
  constexpr IdRange kAll{.first = 0, .count = UINT32_MAX};  // the kernel checks the rest
  const auto settle = [&] {
    process.wait();
    forget(start.birth);
  };
  serve(control, kAll, share, settle, -1);
  ::_exit(1);
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
  ConfineFds own;
  own.runner_socket = std::move(birth.fds[0]);
  own.mapped = std::move(birth.mapped);
  size_t next = 1 + birth.request.guest_fds;
  if (birth.request.spec.walled) own.walls = std::move(birth.fds[next++]);
  if (birth.request.spec.on_disk) own.disk = std::move(birth.fds[next++]);
  if (birth.request.spec.shares) own.workspace = std::move(birth.fds[next++]);
  for (size_t i = 0; i < birth.request.spec.join_count; ++i)
    own.cgroups.push_back(std::move(birth.fds[next++]));
  return own;
}

}  // namespace cloister::runtime
