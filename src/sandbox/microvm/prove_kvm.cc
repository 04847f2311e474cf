// SPDX-License-Identifier: Apache-2.0
#include "sandbox/microvm/prove_kvm.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <tuple>

#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "confine/microvm/become_microvm.h"
#include "confine/microvm/command.h"
#include "confine/microvm/devices.h"
#include "linux/credentials.h"
#include "linux/kvm.h"
#include "linux/message.h"
#include "linux/mounts.h"
#include "linux/process.h"
#include "linux/seccomp.h"
#include "sandbox/host/own_cache.h"
#include "wire/frame.h"
#include "wire/runner.h"

namespace cloister::runtime::microvm {
namespace {

constexpr uid_t kNobody = 65'534;
constexpr size_t kMostOutput = 4'096;  // limit of output read
constexpr size_t kMostTold = 300;      // limit of output quoted in a finding
constexpr size_t kMostCached = 8'192;
constexpr int kAside = 64;
constexpr int kProgramFd = wire::kRunnerFd + 1;

struct Ends {
  Fd socket;  // the runner's
  Fd output;  // the VMM's and the console's
};

// The only directory where a VMM makes sockets, in memory.
Result<> makeSocketPlace(const std::string& root) {
  const Fd place = TRY(linux::newFilesystem(
      "tmpfs", "tmpfs", {{"size", "64k"}, {"nr_inodes", "16"}, {"mode", "1777"}},
      linux::kNoSuid | linux::kNoDev | linux::kNoExec));
  return linux::attachMount(place.get(), root + "/tmp");
}

// The host's files, or the image's; /dev is the VMM's.
Result<> enterImage(const KvmTrial& trial, int devices) {
  const std::string& root = trial.image_root;
  TRY(linux::makePrivate());
  TRY(linux::attachMount(devices, root + "/dev"));
  if (trial.vmm->kind->sockets) TRY(makeSocketPlace(root));
  if (root.empty()) return {};
  const Fd proc = TRY(linux::cloneMount("/proc", true));
  TRY(linux::attachMount(proc.get(), root + "/proc"));
  return linux::enterRoot(root);
}

// Descriptors: 0, 1, 2, the runner's socket, the program to execute or nothing at the runner's
// number, then files opened by number.
Result<> arrange(const KvmTrial& trial, const Ends& ends) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return failErrno("opening /dev/null");
  const int program = trial.vmm->program ? trial.vmm->program->get() : null.get();
  const int from[] = {null.get(), ends.output.get(), ends.output.get(), ends.socket.get(),
                      program,    trial.kernel,      trial.initrd,      trial.disk};
  static_assert(wire::kRunnerFd == 3 && kProgramFd == 4 && kKernelFd == 5 && kDiskFd == 7);
  std::array<int, std::size(from)> aside{};
  for (size_t i = 0; i < aside.size(); ++i)
    aside[i] = ::fcntl(from[i], F_DUPFD_CLOEXEC, kAside);
  for (size_t i = 0; i < aside.size(); ++i)
    TRY(linux::moveFd(aside[i], static_cast<int>(i)));
  if (::fcntl(kProgramFd, F_SETFD, FD_CLOEXEC) != 0) return failErrno("fcntl F_SETFD");
  return linux::closeFrom(static_cast<unsigned>(aside.size()));
}

Result<> becomeNobody(bool root) {
  TRY(linux::setResourceLimit({RLIMIT_CORE, 1}));
  if (root) TRY(linux::becomeUser(kNobody, kNobody));
  TRY(linux::dropCapabilities());
  return linux::setNoNewPrivs();
}

struct Caller {
  uid_t uid = ::geteuid();
  gid_t gid = ::getegid();
};

Result<> prepare(const KvmTrial& trial, const Ends& ends, int devices, Caller caller) {
  ::setsid();
  const bool root = caller.uid == 0;
  if (!root) TRY(linux::mapSelf(0, caller.uid, caller.gid));
  TRY(enterImage(trial, devices));
  TRY(arrange(trial, ends));
  TRY(becomeNobody(root));
  TRY(linux::dieWithParent());
  return linux::installSeccomp(trial.filter);
}

[[noreturn]] void runMachine(const KvmTrial& trial, const Ends& ends, int devices, Caller caller) {
  const auto prepared = prepare(trial, ends, devices, caller);
  const Error error =
      prepared ? executeVmm(trial.command, trial.vmm->program != nullptr) : prepared.error();
  std::ignore = ::write(STDERR_FILENO, error.message.data(), error.message.size());
  ::_exit(1);
}

struct Started {
  Ends ends;
  linux::Cloned process;
};

Result<Started> startMachine(const KvmTrial& trial) {
  const Fd devices = TRY(makeDevices(trial.files));
  auto [ours, theirs] = TRY(linux::socketPair(SOCK_STREAM));
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC | O_NONBLOCK) != 0) return failErrno("pipe2");
  Started machine{{std::move(ours), Fd(pipe[0])}, {}};
  const Ends inside{std::move(theirs), Fd(pipe[1])};
  const Caller caller;
  const uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                         (caller.uid == 0 ? 0 : CLONE_NEWUSER);
  machine.process = TRY(linux::cloneProcess(flags));
  if (machine.process.pid == 0) runMachine(trial, inside, devices.get(), caller);
  return machine;
}

// Appends available output; false at end of file.
bool readSome(int fd, std::string& text) {
  std::array<char, 512> bytes;
  const ssize_t n = ::read(fd, bytes.data(), bytes.size());
  if (n > 0) text.append(bytes.data(), static_cast<size_t>(n));
  return n > 0;
}

bool isFirstWord(std::string_view bytes) {
  wire::FrameHeader header;
  return bytes.size() >= wire::kHeaderBytes && wire::decodeHeader(bytes, header) &&
         header.type == static_cast<uint16_t>(wire::FromRunner::kHello);
}

// The reason of a failed start if reported in a runner's frame (confine.h), else "".
std::string refusalIn(std::string_view bytes) {
  wire::FrameHeader header;
  if (bytes.size() < wire::kHeaderBytes || !wire::decodeHeader(bytes, header) ||
      header.type != static_cast<uint16_t>(wire::FromRunner::kStartFailed)) {
    return {};
  }
  wire::Reader payload(bytes.substr(wire::kHeaderBytes, header.length));
  payload.u32();
  return std::string(payload.bytes()) + "; ";
}

std::string toldOf(std::string_view said, const VmmKind& kind) {
  const size_t stalled = kind.stalled_at(said);
  std::string text(
      said.substr(stalled == std::string_view::npos ? 0 : stalled).substr(0, kMostTold));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = ' ';
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text.empty() ? text : ": " + text;
}

// Waits for the runner's first frame. Returns nullopt on success, else the reason.
std::optional<std::string> listen(const Started& machine, const VmmKind& kind,
                                  std::chrono::seconds patience) {
  std::string said;
  std::string word;
  bool open = true;
  const auto until = base::monotonicNow() + patience;
  for (;;) {
    const auto left = std::chrono::duration_cast<Millis>(until - base::monotonicNow()).count();
    if (left <= 0) {
      return "booted no kernel within " + std::to_string(patience.count()) + " s" +
             toldOf(said, kind);
    }
    pollfd fds[] = {{machine.ends.socket.get(), POLLIN, 0},
                    {machine.process.pidfd.get(), POLLIN, 0},
                    {open ? machine.ends.output.get() : -1, POLLIN, 0}};
    if (::poll(fds, 3, static_cast<int>(left)) <= 0) continue;
    if (fds[2].revents != 0) open = readSome(fds[2].fd, said) && said.size() < kMostOutput;
    if (kind.stalled_at(said) != std::string::npos) return "boots no kernel" + toldOf(said, kind);
    bool more = fds[0].revents == 0 || readSome(fds[0].fd, word);
    if (isFirstWord(word)) return std::nullopt;
    if (!more || fds[1].revents != 0) {
      while (open && said.size() < kMostOutput && readSome(machine.ends.output.get(), said)) {
      }
      while (more && word.size() < kMostOutput)
        more = readSome(machine.ends.socket.get(), word);
      return "boots no kernel: " + std::string(kind.title) + " ended" +
             toldOf(refusalIn(word) + said, kind);
    }
  }
}

// Waits for the machine's answer, then removes the machine completely.
KvmFound boot(const Started& machine, const KvmTrial& trial) {
  const auto begin = base::monotonicNow();
  const auto why = listen(machine, *trial.vmm->kind, trial.patience);
  std::ignore = linux::signalPidfd(machine.process.pidfd.get(), SIGKILL);
  std::ignore = linux::reapPidfd(machine.process.pidfd.get());
  if (why) {
    return {false, std::string(linux::kKvmDevice) + " is there, but " + *why,
            "use a machine whose KVM boots Linux, or raise microvm.probe_seconds on a slow one"};
  }
  const auto took = std::chrono::duration_cast<Millis>(base::monotonicNow() - begin).count();
  return {true, "booted in " + std::to_string(took) + " ms", ""};
}

// A fact a line; the answer follows after an empty line.
std::string keyOf(const KvmTrial& trial) {
  utsname kernel{};
  ::uname(&kernel);
  const std::string boot = base::readFile("/proc/sys/kernel/random/boot_id", 64).value_or("\n");
  return boot + std::string(kernel.release) + " " + kernel.version + "\nuid " +
         std::to_string(::geteuid()) + "\n" + std::to_string(trial.patience.count()) + " s\n" +
         trial.key + "\n\n";
}

std::optional<KvmFound> known(const CachePlace& place, const std::string& key) {
  const std::string text = readCached(place, "", kMostCached);
  if (!text.starts_with(key)) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(key.size());
  std::array<std::string, 3> lines;
  for (std::string& line : lines) {
    const size_t end = rest.find('\n');
    if (end == std::string_view::npos) return std::nullopt;
    line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
  }
  return KvmFound{lines[0] == "works", std::move(lines[1]), std::move(lines[2])};
}

void keep(const CachePlace& place, const std::string& key, const KvmFound& found) {
  if (place.own.empty()) return;
  std::ignore = base::makeDirs(place.own.substr(0, place.own.rfind('/')));
  const std::string text =
      key + (found.works ? "works" : "fails") + "\n" + found.detail + "\n" + found.remedy + "\n";
  std::ignore = base::writeFileAtomic(place.own, text, 0644);
}

}  // namespace

KvmFound askKvm() {
  linux::KvmLack lack = linux::kvmLack();
  if (lack.what.empty()) return {true, "", ""};
  return {false, "no KVM: " + lack.what, std::move(lack.remedy)};
}

KvmFound proveKvm(const KvmTrial& trial) {
  const CachePlace place = cachePlace(trial.name);
  const std::string key = keyOf(trial);
  if (auto found = known(place, key)) return *std::move(found);
  const auto machine = startMachine(trial);
  if (!machine) {
    return {
        false,
        std::string(linux::kKvmDevice) + " cannot be given to a VMM: " + machine.error().message,
        "run cloister-node as root"};
  }
  KvmFound found = boot(*machine, trial);
  keep(place, key, found);
  return found;
}

}  // namespace cloister::runtime::microvm
