// SPDX-License-Identifier: Apache-2.0
#include "confine/become_spawner.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "confine/apply_walls.h"
#include "confine/become_door.h"
#include "confine/become_layers.h"
#include "confine/become_workspace.h"
#include "confine/become_zygote.h"
#include "confine/gvisor/become_gvisor.h"
#include "confine/gvisor/become_saver.h"
#include "confine/microvm/become_microvm.h"
#include "confine/plan_codec.h"
#include "confine/spawn_loop.h"
#include "confine/spawner_plan.h"
#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

Result<> buildRoot(const std::vector<MountStep>& steps) {
  TRY(linux::makePrivate());
  // Build the root on top of /proc: the directory exists everywhere, and no step needs /proc.
  if (::chdir("/proc") != 0) return failErrno("entering /proc");
  for (const MountStep& step : steps) {
    auto applied = applyStep(step);
    if (!applied) return std::unexpected(std::move(applied).error().within("building the root"));
  }
  return {};
}

Result<> applyAll(const std::vector<MountStep>& steps) {
  if (::chdir("/") != 0) return failErrno("entering /");  // steps are relative
  for (const MountStep& step : steps)
    TRY(applyStep(step));
  return {};
}

// Whether sandboxes can mount roots of their own: Linux lets users mount overlayfs since 5.11, and
// some distributions forbid it. A /proc of their own is refused where a container covers parts of
// its own (mount_namespaces(7)).
Result<> tryOwnRoot(const std::vector<MountStep>& steps) {
  if (steps.empty()) return {};
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  const Fd told(ends[0]);
  Fd tell(ends[1]);
  const auto child = TRY(linux::cloneProcess(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID));
  if (child.pid == 0) {
    const auto made = applyAll(steps);
    const std::string text = made ? std::string(kDone) : made.error().message;
    ::_exit(::write(tell.get(), text.data(), std::min(text.size(), kMaxAnswer)) < 0 ? 1 : 0);
  }
  tell.reset();
  char text[kMaxAnswer];
  const ssize_t n = ::read(told.get(), text, sizeof text);
  const std::string_view said(text, static_cast<size_t>(std::max<ssize_t>(n, 0)));
  if (said == kDone) return {};
  return fail(Code::kUnsupported, "a sandbox's own root: " + std::string(said));
}

// Resets the state of the node's process, which a process executed from the node inherits.
void resetProcess() {
  ::setsid();
  ::umask(022);
  linux::askForSlice({});
  for (int signal = 1; signal < NSIG; ++signal)
    ::signal(signal, SIG_DFL);
  ::signal(SIGCHLD, SIG_IGN);  // no wait(2) needed: the node watches by pidfd
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

Result<SpawnerPlan> takePlan() {
  const std::string bytes = TRY(readPlan(kSpawnerPlan));
  SpawnerPlan plan = TRY(decodeSpawnerPlan(bytes));
  ::close(kSpawnerPlan);
  for (const int fd : {kSpawnerControl, kSpawnerRunner}) {
    if (::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return failErrno("keeping a descriptor");
  }
  plan.confinement.runner.reset(kSpawnerRunner);
  return plan;
}

struct Prepared {
  SpawnerPlan plan;
  Fd outer_proc;  // if the root has no /proc
};

// The /proc of whoever started the spawner, above the numbers that confine() gives.
Result<Fd> keepProc() {
  constexpr int kAside = 64;
  const Fd proc(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!proc) return failErrno("opening /proc");
  Fd kept(::fcntl(proc.get(), F_DUPFD_CLOEXEC, kAside));
  if (!kept) return failErrno("keeping /proc");
  return kept;
}

Result<Prepared> prepare() {
  TRY(linux::dieWithParent());
  resetProcess();
  SpawnerPlan plan = TRY(takePlan());
  Fd proc = TRY(keepProc());
  TRY(buildRoot(plan.root));
  if (::access("/proc/self", F_OK) == 0) proc.reset();
  TRY(tryOwnRoot(plan.confinement.root));
  return Prepared{std::move(plan), std::move(proc)};
}

Result<> putUpWalls(int fd) {
  return applyWalls(TRY(readWalls(fd)), "/");
}

}  // namespace

void becomeSpawner() {
  auto made = prepare();
  const std::string text = made ? std::string(kDone) : made.error().message.substr(0, kMaxAnswer);
  if (!linux::sendMessage(kSpawnerControl, text) || !made) ::_exit(1);
  Confinement& confinement = made->plan.confinement;
  Birth birth = serveSpawns(kSpawnerControl, made->plan.ids, made->outer_proc.get());
  made->outer_proc.reset();  // the new process has no use for it
  if (birth.request.what == SpawnRequest::What::kZygote) becomeZygote(confinement, birth);
  if (birth.request.what == SpawnRequest::What::kGvisor) becomeGvisor(confinement, birth);
  if (birth.request.what == SpawnRequest::What::kGvisorSave) becomeSaver(birth);
  if (birth.request.what == SpawnRequest::What::kWorkspace) becomeWorkspace(birth);
  if (birth.request.what == SpawnRequest::What::kDoor) becomeDoor(birth);
  if (birth.request.what == SpawnRequest::What::kLayers) becomeLayers(birth);
  if (birth.request.what == SpawnRequest::What::kMicrovm) {
    becomeMicrovm(std::move(confinement), birth);
  }
  const ConfineFds fds = confineFds(birth);
  const auto confined = confineSelf(confinement, birth.request.spec, fds, putUpWalls);
  if (!confined) refuseToStart(confined.error());
  becomeRunner(runnerArguments(birth.request.spec));
}

}  // namespace cloister::runtime
