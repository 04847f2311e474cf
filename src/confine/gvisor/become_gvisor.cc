// SPDX-License-Identifier: Apache-2.0
#include "confine/gvisor/become_gvisor.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <span>
#include <string>
#include <vector>

#include "confine/apply_walls.h"
#include "confine/gvisor/bundle.h"
#include "confine/gvisor/link.h"
#include "confine/mount_plan.h"
#include "linux/credentials.h"
#include "linux/network.h"
#include "linux/process.h"
#include "wire/runner.h"

namespace cloister::runtime {
namespace {

using Op = MountStep::Op;

// Indices of the birth's descriptors.
constexpr size_t kPlan = 1;
constexpr size_t kProgram = 2;
constexpr size_t kGuestFile = 3;
constexpr size_t kImageFiles = 4;  // for a memory image; then the error pipe, its confinement rules
                                   // if any, and the cgroups
// The program's number after all but the standard streams and the runner's socket are closed.
constexpr int kGvisorFd = wire::kRunnerFd + 1;
// First number of the memory image's files.
constexpr int kImageFd = kGvisorFd + 1;
// First number of descriptors set aside while the final numbers are assigned.
constexpr int kGvisorAside = 64;

MountStep small(std::string target, std::string size, std::string_view why) {
  return {.op = Op::kNew,
          .target = std::move(target),
          .source = "tmpfs",
          .why = why,
          .options = {{"size", std::move(size)}, {"nr_inodes", "256"}, {"mode", "755"}},
          .attributes = linux::kNoSuid | linux::kNoDev};
}

Result<Fd> makeFile(const std::string& path, mode_t mode) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!file) return failErrno("making " + path);
  return file;
}

Result<> copy(int from, const std::string& to, mode_t mode) {
  struct stat status{};
  const Fd file = TRY(makeFile(to, mode));
  if (::fstat(from, &status) != 0) return failErrno("looking at what becomes " + to);
  off_t at = 0;
  while (at < status.st_size) {
    const auto rest = static_cast<size_t>(status.st_size - at);
    if (::sendfile(file.get(), from, &at, rest) <= 0) return failErrno("writing " + to);
  }
  return {};
}

Result<> writeFilter(const std::vector<sock_filter>& filter, const std::string& to) {
  const Fd file = TRY(makeFile(to, 0444));
  const auto bytes = std::as_bytes(std::span(filter));
  const ssize_t n = ::write(file.get(), bytes.data(), bytes.size());
  if (n != static_cast<ssize_t>(bytes.size())) return failErrno("writing " + to);
  return {};
}

// runsc reads the machine's memory from /proc/meminfo, and gives as much to its guest kernel.
Result<> showMemory(uint64_t bytes) {
  constexpr char kMeminfo[] = "tmp/meminfo";
  TRY(applyStep({.op = Op::kFile, .target = kMeminfo, .mode = 0444, .content = meminfoOf(bytes)}));
  return applyStep({.op = Op::kPlace, .target = "proc/meminfo", .source = kMeminfo});
}

// Shows the files that interpreters started ahead read at the same path inside, if the root has
// any.
Result<> showAhead(const std::string& to) {
  const std::string from = "/" + std::string(kAhead);
  if (::access(from.c_str(), F_OK) != 0) return {};
  if (::mkdir(to.c_str(), 0755) != 0) return failErrno("making " + to);
  const Fd tree = TRY(linux::cloneMount(from));
  return linux::attachMount(tree.get(), to.substr(1));
}

// runsc opens the image's files by name.
Result<> linkImage() {
  int fd = kImageFd;
  for (const std::string_view name : gvisor::kImageFiles) {
    const std::string link = std::string(gvisor::kImage) + "/" + std::string(name);
    const std::string open = "/proc/self/fd/" + std::to_string(fd++);
    if (::symlink(open.c_str(), link.c_str()) != 0) return failErrno("making " + link);
  }
  return {};
}

// /run inside is the tools' folder, so files of secrets are found there too.
Result<> linkSecrets(const std::string& tools) {
  const std::string link = tools + "/secrets";
  if (::symlink(wire::kSecretsPlace, link.c_str()) != 0) return failErrno("making " + link);
  return {};
}

// Binds the whole tree again as the sandbox's root, then adds runsc's own files, which stay outside
// that root.
Result<> arrangeFiles(const Confinement& confinement, const Birth& birth) {
  const std::string root(gvisor::kRoot.substr(1));
  const Fd tree = TRY(linux::cloneMount("/", true));
  TRY(linux::attachMount(tree.get(), root));
  for (const char* name : {"/proc", "/dev", "/run", "/tmp"})
    TRY(applyStep(small(root + name, "4k", "a mount point of the guest's")));
  TRY(applyStep({.op = Op::kNew,
                 .target = "proc",
                 .source = "proc",
                 .attributes = linux::kNoSuid | linux::kNoDev | linux::kNoExec}));
  TRY(applyStep(small("tmp", "8m", "runsc's own files")));
  TRY(showMemory(birth.request.spec.shown_memory));
  for (const std::string_view place :
       {gvisor::kBundle, gvisor::kState, gvisor::kTools, gvisor::kImage}) {
    if (::mkdir(place.data(), 0755) != 0) return failErrno("making " + std::string(place));
  }
  const std::string tools(gvisor::kTools);
  TRY(copy(birth.fds[kPlan].get(), std::string(gvisor::kBundle) + "/config.json", 0444));
  TRY(copy(confinement.runner.get(), tools + std::string(gvisor::kRunner), 0555));
  if (birth.request.spec.nests) {
    TRY(copy(birth.fds[kGuestFile].get(), tools + std::string(gvisor::kGuest), 0555));
  }
  TRY(writeFilter(confinement.filter, tools + std::string(gvisor::kFilter)));
  if (birth.request.spec.guest_begins == Beginning::kImage) TRY(linkImage());
  TRY(linkSecrets(tools));
  return showAhead(tools + "/ahead");
}

// 1 is /dev/null, 2 the pipe of complaints, 0 or wire::kRunnerFd the runner's socket, the other
// /dev/null; then runsc, and a memory image.
Result<> arrangeGvisorFds(const Birth& birth) {
  const SandboxSpec& spec = birth.request.spec;
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int complaints = birth.fds[birth.request.guest_fds].get();
  const bool at_stdin = gvisor::atStdin(spec);
  std::vector<int> from = {at_stdin ? wire::kRunnerFd : null, null, complaints,
                           at_stdin ? null : wire::kRunnerFd, birth.fds[kProgram].get()};
  for (size_t i = 0; i < filesOf(spec.guest_begins); ++i)
    from.push_back(birth.fds[kImageFiles + i].get());
  int next = 0;
  for (const int fd : from) {
    if (::fcntl(fd, F_DUPFD_CLOEXEC, kGvisorAside) != kGvisorAside + next++) {
      return failErrno("keeping a descriptor");
    }
  }
  for (int fd = 0; fd < next; ++fd)
    TRY(linux::moveFd(kGvisorAside + fd, fd));
  if (::fcntl(kGvisorFd, F_SETFD, FD_CLOEXEC) != 0) return failErrno("fcntl F_SETFD");
  return linux::closeFrom(static_cast<unsigned>(next));
}

Result<> prepareSandbox(const Confinement& confinement, const Birth& birth) {
  const SandboxSpec& spec = birth.request.spec;
  const size_t walls_at = 1 + birth.request.guest_fds;
  const size_t cgroups = walls_at + (spec.walled ? 1 : 0);
  for (size_t i = 0; i < spec.join_count; ++i) {
    if (::write(birth.fds[cgroups + i].get(), "0", 1) != 1) {
      return failErrno("joining a cgroup");
    }
  }
  TRY(linux::unshareNamespaces(CLONE_NEWCGROUP));
  TRY(linux::nameHost("cloister"));
  ::setsid();
  ::signal(SIGCHLD, SIG_DFL);
  TRY(waitForIdMaps(birth.mapped));
  TRY(linux::becomeUser(0, 0));
  TRY(arrangeFiles(confinement, birth));
  if (spec.guest_link != 0) TRY(gvisor::makeLink(spec.guest_link));
  if (spec.walled) {
    const model::Walls walls = TRY(readWalls(birth.fds[walls_at].get()));
    TRY(applyWalls(walls, std::string(gvisor::kRoot)));
  }
  if (spec.nice != 0 && ::setpriority(PRIO_PROCESS, 0, spec.nice) != 0) {
    return failErrno("setpriority");
  }
  TRY(linux::setResourceLimit({RLIMIT_CORE, 1}));
  TRY(arrangeGvisorFds(birth));
  return linux::setNoNewPrivs();
}

}  // namespace

void becomeGvisor(const Confinement& confinement, Birth& birth) {
  const bool one_user = birth.request.rest.count == 0;
  const auto told = linux::moveFd(birth.fds[0].get(), wire::kRunnerFd);
  if (!told || ::chdir("/") != 0) ::_exit(1);
  if (const auto ready = prepareSandbox(confinement, birth); !ready) refuseToStart(ready.error());
  refuseToStart(linux::executeFd(kGvisorFd, gvisor::command(birth.request.spec, one_user), {}));
}

}  // namespace cloister::runtime
