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

// Room for its own files: the module that makes it a zygote, and what compiled code it keeps.
constexpr uint64_t kScratchBytes = uint64_t{16} << 20;
constexpr uint64_t kScratchInodes = 256;
// While descriptors are arranged, they are kept from here on.
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

// What it says on stdout and stderr goes into a pipe that nobody reads: its streams must be of the
// kind that a program in a sandbox has.
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
  // Kept for a word about what fails, whatever happens to the others.
  const int control = ::fcntl(birth.fds[0].get(), F_DUPFD_CLOEXEC, kZygoteAside / 2);
  const auto became = becomeInterpreter(confinement, birth);
  for (const int fd : {control, kZygoteControl}) {
    if (linux::sendMessage(fd, became.error().message.substr(0, kMaxAnswer))) break;
  }
  ::_exit(1);
}

}  // namespace cloister::runtime
