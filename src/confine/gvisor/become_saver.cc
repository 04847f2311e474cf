// SPDX-License-Identifier: Apache-2.0
#include "confine/gvisor/become_saver.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include <time.h>

#include "confine/gvisor/bundle.h"
#include "confine/mount_plan.h"
#include "linux/credentials.h"
#include "linux/message.h"
#include "linux/process.h"

namespace cloister::runtime {
namespace {

// Indices of the birth's descriptors; the cgroups follow.
constexpr size_t kAnswer = 0;
constexpr size_t kSandbox = 1;
constexpr size_t kSaverProgram = 2;
constexpr size_t kCgroups = 1 + kSaverFds;

constexpr int kNamespaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET |
                            CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

Result<> joinSandbox(const Birth& birth) {
  const SandboxSpec& spec = birth.request.spec;
  for (size_t i = 0; i < spec.join_count; ++i) {
    if (::write(birth.fds[kCgroups + i].get(), "0", 1) != 1) return failErrno("joining a cgroup");
  }
  TRY(linux::joinNamespaces(birth.fds[kSandbox].get(), kNamespaces));
  ::setsid();
  ::signal(SIGCHLD, SIG_DFL);
  TRY(linux::becomeUser(0, 0));
  TRY(linux::hideMemory());
  return linux::setResourceLimit({RLIMIT_CORE, 1});
}

Result<> mountPlace(const SandboxSpec& spec) {
  return applyStep({.op = MountStep::Op::kNew,
                    .target = std::string(gvisor::kImage.substr(1)),
                    .source = "tmpfs",
                    .options = {{"size", std::to_string(spec.guest_memory_bytes)},
                                {"nr_inodes", "64"},
                                {"mode", "700"}},
                    .attributes = linux::kNoSuid | linux::kNoDev | linux::kNoExec});
}

[[noreturn]] void becomeCheckpoint(const Birth& birth, int complaints) {
  const bool one_user = birth.request.rest.count == 0;
  constexpr int kSaverProgramFd = 3;
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int from[] = {null, null, complaints, birth.fds[kSaverProgram].get()};
  constexpr int kAside = 64;
  bool arranged = true;
  for (int fd = 0; fd <= kSaverProgramFd; ++fd)
    arranged = arranged && ::fcntl(from[fd], F_DUPFD_CLOEXEC, kAside) == kAside + fd;
  for (int fd = 0; fd <= kSaverProgramFd; ++fd)
    arranged = arranged && linux::moveFd(kAside + fd, fd);
  arranged = arranged && ::fcntl(kSaverProgramFd, F_SETFD, FD_CLOEXEC) == 0 &&
             linux::closeFrom(kSaverProgramFd + 1) && linux::setNoNewPrivs();
  if (arranged)
    std::ignore = linux::executeFd(kSaverProgramFd, gvisor::checkpointCommand(one_user), {});
  ::_exit(127);
}

// The first part of its output, read to the end.
std::string readComplaints(int pipe) {
  std::string said(kMaxAnswer / 2, '\0');
  size_t have = 0;
  for (;;) {
    char rest[512];
    const bool more = have < said.size();
    const ssize_t n = more ? ::read(pipe, said.data() + have, said.size() - have)
                           : ::read(pipe, rest, sizeof rest);
    if (n <= 0) break;
    if (more) have += static_cast<size_t>(n);
  }
  said.resize(have);
  return said;
}

Result<> checkpoint(const Birth& birth) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  const Fd told(ends[0]);
  Fd tell(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return failErrno("fork");
  if (child == 0) becomeCheckpoint(birth, tell.get());
  tell.reset();
  const std::string said = readComplaints(told.get());
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return failErrno("waiting for runsc checkpoint");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return fail(Code::kInternal, "runsc checkpoint failed: " + said);
}

Result<std::vector<Fd>> openImage() {
  std::vector<Fd> files;
  for (const std::string_view name : gvisor::kImageFiles) {
    const std::string path = std::string(gvisor::kImage) + "/" + std::string(name);
    Fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    struct stat status{};
    if (!file || ::fstat(file.get(), &status) != 0) return failErrno("opening " + path);
    if (!S_ISREG(status.st_mode)) return fail(Code::kInternal, path + ": no file");
    files.push_back(std::move(file));
  }
  return files;
}

// The sandbox's kernel continues to write after the requesting process is gone, and its writes are
// charged to the sandbox. The memory lent for the image must stay until the kernel has closed its
// files; until then the mount is busy. The node ends this process if unmounting takes too long.
Result<> unmountOnceClosed() {
  for (timespec pause{.tv_sec = 0, .tv_nsec = 1'000'000};; ::nanosleep(&pause, nullptr)) {
    auto unmounted = linux::unmountUnused(std::string(gvisor::kImage));
    if (!unmounted) return std::unexpected(std::move(unmounted).error());
    if (*unmounted) return {};
    pause.tv_nsec = std::min(2 * pause.tv_nsec, 100'000'000L);
  }
}

Result<std::vector<Fd>> save(const Birth& birth) {
  TRY(joinSandbox(birth));
  TRY(mountPlace(birth.request.spec));
  if (auto done = checkpoint(birth); !done) {
    TRY(unmountOnceClosed());
    return std::unexpected(std::move(done).error());
  }
  auto files = openImage();
  // After detaching, the files exist as long as a process has them open.
  TRY(linux::detachMount(std::string(gvisor::kImage)));
  return files;
}

}  // namespace

void becomeSaver(Birth& birth) {
  const auto files = save(birth);
  std::vector<int> fds;
  if (files) std::ranges::transform(*files, std::back_inserter(fds), &Fd::get);
  const std::string text = files ? std::string(kDone) : files.error().message.substr(0, kMaxAnswer);
  std::ignore = linux::sendMessage(birth.fds[kAnswer].get(), text, fds);
  ::_exit(0);
}

}  // namespace cloister::runtime
