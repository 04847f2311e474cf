// SPDX-License-Identifier: Apache-2.0
#include "krun/driver.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "krun/api.h"
#include "krun/relay.h"
#include "linux/process.h"
#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::krun {
namespace {

constexpr uint32_t kLogErrors = 1;
constexpr char kRootTag[] = "/dev/root";  // KRUN_FS_ROOT_TAG
constexpr int kSaid = 121;  // exit code of libkrun's process after reporting the failure

struct Machine {
  std::string library;
  std::string root;
  std::string socket;
  uint32_t port = 0;
  uint8_t cpus = 0;
  uint32_t mebibytes = 0;
  std::vector<std::string> settings;
};

template <class Number>
Result<Number> numberIn(std::string_view text, const char* what) {
  Number number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || number == 0) {
    return fail(Code::kInvalid, std::string("reading the arguments: ") + what + " is no number");
  }
  return number;
}

// The guest's settings travel in quotes on its kernel's command line.
Result<> checkSetting(const std::string& setting) {
  const size_t name = setting.find('=');
  if (name != 0 && name != std::string::npos && setting.find_first_of("\"\\\n") == setting.npos) {
    return {};
  }
  return fail(Code::kInvalid, "reading the arguments: malformed setting " + setting);
}

Result<Machine> machineOf(std::span<char* const> arguments) {
  if (arguments.size() < 6) return fail(Code::kInvalid, "reading the arguments: too few");
  Machine machine{.library = arguments[0],
                  .root = arguments[1],
                  .socket = arguments[2],
                  .port = TRY(numberIn<uint32_t>(arguments[3], "PORT")),
                  .cpus = TRY(numberIn<uint8_t>(arguments[4], "CPUS")),
                  .mebibytes = TRY(numberIn<uint32_t>(arguments[5], "MEBIBYTES")),
                  .settings = {}};
  for (const char* setting : arguments.subspan(6)) {
    machine.settings.emplace_back(setting);
    TRY(checkSetting(machine.settings.back()));
  }
  return machine;
}

// The library's server opens files as the guest asks. Only a read-only mount, not the server,
// guarantees that no file can be changed.
Result<> checkRoot(const std::string& root) {
  struct statvfs status{};
  if (::statvfs(root.c_str(), &status) != 0) return failErrno("looking at the machine's root");
  if ((status.f_flag & ST_RDONLY) == 0) {
    return fail(Code::kInternal, "looking at the machine's root: " + root + " can be written");
  }
  return {};
}

// --- libkrun's process

Result<> check(const char* function, int32_t returned) {
  if (returned >= 0) return {};
  return failErrno(std::string("configuring libkrun: krun_") + function, -returned);
}

std::vector<const char*> pointersTo(const std::vector<std::string>& texts) {
  std::vector<const char*> pointers;
  for (const std::string& text : texts)
    pointers.push_back(text.c_str());
  pointers.push_back(nullptr);
  return pointers;
}

Result<> setRoot(const KrunApi& krun, uint32_t ctx, const std::string& root) {
  if (krun.add_virtiofs3 == nullptr) return check("set_root", krun.set_root(ctx, root.c_str()));
  return check("add_virtiofs3", krun.add_virtiofs3(ctx, kRootTag, root.c_str(), 0, true));
}

// Without TSI, so ask for the device explicitly.
Result<> setVsock(const KrunApi& krun, uint32_t ctx, const Machine& machine) {
  TRY(check("disable_implicit_vsock", krun.disable_implicit_vsock(ctx)));
  TRY(check("add_vsock", krun.add_vsock(ctx, 0)));
  return check("add_vsock_port", krun.add_vsock_port(ctx, machine.port, machine.socket.c_str()));
}

Result<uint32_t> configure(const KrunApi& krun, const Machine& machine, int console) {
  TRY(check("set_log_level", krun.set_log_level(kLogErrors)));
  const int32_t made = krun.create_ctx();
  TRY(check("create_ctx", made));
  const auto ctx = static_cast<uint32_t>(made);
  TRY(check("set_vm_config", krun.set_vm_config(ctx, machine.cpus, machine.mebibytes)));
  TRY(setRoot(krun, ctx, machine.root));
  TRY(setVsock(krun, ctx, machine));
  const std::string path = "/proc/self/fd/" + std::to_string(console);
  TRY(check("set_console_output", krun.set_console_output(ctx, path.c_str())));
  TRY(check("set_workdir", krun.set_workdir(ctx, "/")));
  // The library's own program in the guest adds argv[0]. With this variable the program executes
  // ours instead of waiting for ours.
  std::vector<std::string> environment = machine.settings;
  environment.emplace_back("KRUN_INIT_PID1=1");
  const auto none = pointersTo({});
  const std::string guest = std::string("/") + wire::guest::kGuest;
  TRY(check("set_exec",
            krun.set_exec(ctx, guest.c_str(), none.data(), pointersTo(environment).data())));
  return ctx;
}

Result<> becomeMachine(const Machine& machine, int console) {
  const KrunApi krun = TRY(loadKrun(machine.library));
  const uint32_t ctx = TRY(configure(krun, machine, console));
  const int32_t returned = krun.start_enter(ctx);
  return failErrno("starting the machine: krun_start_enter", -returned);
}

int complain(const Error& error) {
  if (!error.message.empty()) std::fprintf(stderr, "cloister-krun: %s\n", error.message.c_str());
  return error.code == Code::kInvalid ? 64 : 1;
}

// --- beside the machine

struct Pipe {
  Fd read;
  Fd write;
};
Result<Pipe> makePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failErrno("pipe2");
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

Result<Fd> listenAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return fail(Code::kInvalid, "reading the arguments: SOCKET is too long");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener) return failErrno("making a socket");
  if (::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), 1) != 0) {
    return failErrno("listening for the machine at " + path);
  }
  return listener;
}

struct Child {
  pid_t pid = -1;
  RelayEnds ends;
};

[[noreturn]] void runMachine(const Machine& machine, RelayEnds& ends, const Pipe& console,
                             pid_t parent) {
  if (!linux::dieWithParent() || ::getppid() != parent) ::_exit(1);
  ::close(ends.node);
  ends.listener.reset();
  ends.alive.reset();
  ends.console.reset();
  const auto failed = becomeMachine(machine, console.write.get());
  complain(failed.error());
  ::_exit(kSaid);
}

Result<Child> startMachine(const Machine& machine) {
  Pipe console = TRY(makePipe());
  Pipe alive = TRY(makePipe());
  Child child;
  child.ends = {.node = wire::kRunnerFd,
                .listener = TRY(listenAt(machine.socket)),
                .console = std::move(console.read),
                .alive = std::move(alive.read)};
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid < 0) return failErrno("fork");
  if (child.pid == 0) runMachine(machine, child.ends, console, parent);
  TRY(linux::hideMemory());  // not in the machine's process, which has the same user
  return child;
}

// The exit codes of the library's own program in the guest (libkrun.h).
Result<> judge(int status) {
  if (WIFSIGNALED(status)) {
    return fail(Code::kInternal, "the machine ended by signal " + std::to_string(WTERMSIG(status)));
  }
  switch (WEXITSTATUS(status)) {
    case 0:
      return {};
    case kSaid:
      return fail(Code::kInternal, "");
    case 125:
      return fail(Code::kInternal, "the guest's root could not be set up");
    case 126:
    case 127:
      return fail(Code::kInternal, "the guest's first program could not be executed");
    default:
      return fail(Code::kInternal, "the machine ended with " + std::to_string(WEXITSTATUS(status)));
  }
}

Result<> runBoth(const Machine& machine) {
  TRY(checkRoot(machine.root));
  ::signal(SIGPIPE, SIG_IGN);
  Child child = TRY(startMachine(machine));
  const auto end = relay(child.ends);
  const bool ended = end && *end == RelayEnd::kMachine;
  if (!ended) ::kill(child.pid, SIGKILL);
  int status = 0;
  if (::waitpid(child.pid, &status, 0) != child.pid) return failErrno("waiting for the machine");
  ::unlink(machine.socket.c_str());
  if (!end) return std::unexpected(end.error());
  return ended ? judge(status) : Result<>{};
}

}  // namespace

int drive(std::span<char* const> arguments) {
  if (arguments.size() == 2 && std::string_view(arguments[0]) == "--check") {
    const auto krun = loadKrun(arguments[1]);
    const std::string said = krun ? krun->file + "\n" + krun->kernel : krun.error().message;
    std::printf("%s\n", said.c_str());
    return krun ? 0 : 1;
  }
  const auto machine = machineOf(arguments);
  if (!machine) return complain(machine.error());
  const auto done = runBoth(*machine);
  return done ? 0 : complain(done.error());
}

}  // namespace cloister::krun
