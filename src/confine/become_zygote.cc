// SPDX-License-Identifier: Apache-2.0
#include "confine/become_zygote.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <tuple>
#include <vector>

#include "confine/mount_plan.h"
#include "confine/zygote_plan.h"
#include "linux/credentials.h"
#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

// Space for the zygote's own files: its module, and cached compiled code.
constexpr uint64_t kScratchBytes = uint64_t{16} << 20;
constexpr uint64_t kScratchInodes = 256;
// First number of descriptors set aside while the final numbers are assigned.
constexpr int kZygoteAside = 64;

Result<> placeFiles(const ZygotePlan& plan) {
  for (MountStep& step : scratchSteps(kScratchBytes, kScratchInodes))
    TRY(applyStep(step));
  for (const ZygotePlan::File& file : plan.files) {
    MountStep step;
    step.op = MountStep::Op::kFile;
    step.target = "workspace/" + file.name;
    step.mode = 0444;
    step.content = file.content;
    TRY(applyStep(step));
  }
  if (::chdir("/workspace") != 0) return failErrno("entering /workspace");
  return {};
}

// stdout and stderr go into a pipe that nobody reads: a zygote's streams must have the same type as
// the streams of a program in a sandbox.
Result<> arrangeZygoteFds(const Confinement& confinement, const Birth& birth) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int from[] = {
      null,   ends[1], ends[1], birth.fds[0].get(), confinement.runner.get(), birth.fds[1].get(),
      ends[0]};
  int next = 0;
  for (const int fd : from) {
    if (::fcntl(fd, F_DUPFD_CLOEXEC, kZygoteAside) != kZygoteAside + next++) {
      return failErrno("keeping a descriptor");
    }
  }
  for (int fd = 0; fd < next; ++fd)
    TRY(linux::moveFd(kZygoteAside + fd, fd));
  return linux::closeFrom(static_cast<unsigned>(next));
}

Result<> becomeInterpreter(const Confinement& confinement, const Birth& birth) {
  const ZygotePlan plan = TRY(readZygotePlan(birth.fds[1].get())).plan;
  TRY(waitForIdMaps(birth.mapped));
  TRY(linux::becomeUser(0, 0));
  ::setsid();
  ::signal(SIGCHLD, SIG_DFL);
  MountStep proc;
  proc.op = MountStep::Op::kNew;
  proc.target = "proc";
  proc.source = "proc";
  proc.attributes = linux::kNoSuid | linux::kNoDev | linux::kNoExec;
  TRY(applyStep(proc));
  TRY(placeFiles(plan));
  TRY(arrangeZygoteFds(confinement, birth));
  return std::unexpected(linux::executeInPath(plan.argv, plan.env));
}

}  // namespace

void becomeZygote(const Confinement& confinement, Birth& birth) {
  // Keep the control socket for reporting failures, whatever happens to the other descriptors.
  const int control = ::fcntl(birth.fds[0].get(), F_DUPFD_CLOEXEC, kZygoteAside / 2);
  const auto became = becomeInterpreter(confinement, birth);
  for (const int fd : {control, kZygoteControl}) {
    if (linux::sendMessage(fd, became.error().message.substr(0, kMaxAnswer))) break;
  }
  ::_exit(1);
}

}  // namespace cloister::runtime
