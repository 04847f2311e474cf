// SPDX-License-Identifier: Apache-2.0
#include "runner/testing/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include <gtest/gtest.h>

#include "base/file.h"

namespace cloister::runner::testing {
namespace {

using wire::FromRunner;
using wire::ToRunner;

bool writeText(const char* path, std::string_view text) {
  const Fd fd(open(path, O_WRONLY | O_CLOEXEC));
  return fd && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool bindMount(const char* from, const std::string& to, bool directory) {
  if (directory) {
    if (mkdir(to.c_str(), 0755) != 0) return false;
  } else if (const Fd made(open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)); !made) {
    return false;
  }
  return mount(from, to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0;
}

bool mountTerminals(const std::string& dev) {
  return mkdir((dev + "/pts").c_str(), 0755) == 0 &&
         mount("devpts", (dev + "/pts").c_str(), "devpts", 0, "mode=600,ptmxmode=666") == 0 &&
         symlink("pts/ptmx", (dev + "/ptmx").c_str()) == 0;
}

// Makes a root of /usr, /proc, /dev/null, terminals, and an empty /dev/shm, /home/user, /tmp and
// /workspace, on a private tmpfs.
bool buildRoot() {
  const std::string root = "/tmp";
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  if (mount("tmpfs", root.c_str(), "tmpfs", 0, nullptr) != 0) return false;
  for (const char* name : {"bin", "lib", "lib64"}) {
    const std::string target = std::string("usr/") + name;
    if (symlink(target.c_str(), (root + "/" + name).c_str()) != 0) return false;
  }
  return bindMount("/usr", root + "/usr", true) && mkdir((root + "/dev").c_str(), 0755) == 0 &&
         bindMount("/dev/null", root + "/dev/null", false) && mountTerminals(root + "/dev") &&
         mkdir((root + "/dev/shm").c_str(), 0777) == 0 &&
         mkdir((root + "/proc").c_str(), 0755) == 0 &&
         mount("proc", (root + "/proc").c_str(), "proc", 0, nullptr) == 0 &&
         mkdir((root + "/tmp").c_str(), 0777) == 0 && mkdir((root + "/home").c_str(), 0755) == 0 &&
         mkdir((root + "/home/user").c_str(), 0755) == 0 &&
         mkdir((root + "/workspace").c_str(), 0777) == 0 &&
         mount("tmpfs", (root + "/workspace").c_str(), "tmpfs", 0, "size=16m,nr_inodes=1000") ==
             0 &&
         chroot(root.c_str()) == 0 && chdir("/") == 0;
}

[[noreturn]] void becomeRunner(int program, int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!buildRoot() || dup2(socket, wire::kRunnerFd) < 0) _exit(90);
  char name[] = "cloister-runner";
  char* argv[] = {name, nullptr};
  char* envp[] = {nullptr};
  fexecve(program, argv, envp);
  _exit(91);
}

// The outer process: makes the namespaces, becomes the runner's parent, and ends with the runner's
// status.
[[noreturn]] void enterJail(int program, int socket) {
  // As root, run the jail as another user: /proc shows non-dumpable processes as root's.
  if (geteuid() == 0 && (setgid(64'123) != 0 || setuid(64'123) != 0)) _exit(92);
  prctl(PR_SET_DUMPABLE, 1);  // or our own uid_map would be root's
  const std::string uid = "1000 " + std::to_string(geteuid()) + " 1";
  const std::string gid = "1000 " + std::to_string(getegid()) + " 1";
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC) != 0)
    _exit(92);
  writeText("/proc/self/setgroups", "deny");
  if (!writeText("/proc/self/uid_map", uid) || !writeText("/proc/self/gid_map", gid)) _exit(92);
  const pid_t pid = fork();
  if (pid == 0) becomeRunner(program, socket);
  close(socket);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

}  // namespace

std::string goldenFrame(const std::string& name) {
  const std::string path = std::string(CLOISTER_SOURCE_DIR) + "/spec/wire/gen-" +
                           std::to_string(wire::kGeneration) + "/" + name + ".hex";
  std::string bytes;
  std::string digits;
  for (const char c : base::readFile(path).value_or("")) {
    if (c != '\n') digits += c;
    if (digits.size() < 2) continue;
    bytes += static_cast<char>(std::stoi(digits, nullptr, 16));
    digits.clear();
  }
  return bytes;
}

Result<std::unique_ptr<Jail>> Jail::start(const std::string& runner_path) {
  // High numbers: dup2 to fd 3 in the child must not close any of the descriptors.
  Fd program(open(runner_path.c_str(), O_PATH | O_CLOEXEC));
  if (!program) return failErrno("opening " + runner_path);
  program.reset(fcntl(program.get(), F_DUPFD_CLOEXEC, 50));
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return failErrno("socketpair");
  Fd ours(ends[0]);
  Fd theirs(fcntl(ends[1], F_DUPFD_CLOEXEC, 50));
  close(ends[1]);
  const pid_t pid = fork();
  if (pid == 0) {
    ours.reset();
    enterJail(program.get(), theirs.get());
  }
  theirs.reset();
  std::unique_ptr<Jail> jail(new Jail(pid, std::move(ours)));
  auto hello = jail->next();
  if (!hello)
    return fail(Code::kUnsupported, "starting a jail: status " + std::to_string(jail->wait()));
  if (hello->type != FromRunner::kHello) return fail(Code::kInternal, "no hello");
  return jail;
}

Jail::~Jail() {
  socket_.reset();
  if (pid_ > 0) wait();
}

void Jail::sendRaw(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // the runner is gone: the following steps report the end
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void Jail::send(ToRunner type, uint32_t channel, std::string_view payload) {
  char header[wire::kHeaderBytes];
  wire::encodeHeader(header, static_cast<uint16_t>(type), channel,
                     static_cast<uint32_t>(payload.size()));
  sendRaw(std::string(header, sizeof header).append(payload));
}

Result<Frame> Jail::next() {
  for (;;) {
    wire::FrameHeader header;
    if (received_.size() >= wire::kHeaderBytes && !wire::decodeHeader(received_, header))
      return fail(Code::kInvalid, "bad header");
    const size_t whole = wire::kHeaderBytes + header.length;
    if (received_.size() >= wire::kHeaderBytes && received_.size() >= whole) {
      Frame frame{static_cast<FromRunner>(header.type), header.channel,
                  received_.substr(wire::kHeaderBytes, header.length)};
      received_.erase(0, whole);
      return frame;
    }
    pollfd p{socket_.get(), POLLIN, 0};
    if (poll(&p, 1, 20'000) == 0) return fail(Code::kUnavailable, "the runner says nothing");
    char buffer[65'536];
    const ssize_t n = recv(socket_.get(), buffer, sizeof buffer, 0);
    if (n <= 0) return fail(Code::kUnavailable, "the runner has gone");
    received_.append(buffer, static_cast<size_t>(n));
  }
}

int Jail::wait() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Jail::sendGroups(uint32_t channel, const std::vector<int>& fds) {
  const auto count = static_cast<uint32_t>(fds.size());
  char frame[wire::kHeaderBytes + sizeof count];
  wire::encodeHeader(frame, static_cast<uint16_t>(ToRunner::kGroups), channel, sizeof count);
  std::memcpy(frame + wire::kHeaderBytes, &count, sizeof count);
  alignas(cmsghdr) char control[CMSG_SPACE(wire::kMaxGroups * sizeof(int))] = {};
  iovec part{frame, sizeof frame};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  ASSERT_EQ(sendmsg(socket_.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof frame));
}

void Jail::startProgram(uint32_t channel, const std::vector<std::string>& argv, uint8_t flags,
                        std::string_view cwd) {
  for (const std::string& text : argv)
    send(ToRunner::kText, channel, std::string("\0\0", 2) + text);
  send(ToRunner::kText, channel, std::string("\1\0", 2) + "PATH=/usr/bin:/bin");
  std::string start(1, static_cast<char>(flags));
  char buffer[4200];
  wire::Writer w(buffer, sizeof buffer);
  w.bytes(cwd);
  send(ToRunner::kStart, channel, start.append(w.view()));
}

Ended Jail::finish(uint32_t channel) {
  Ended run;
  for (;;) {
    const auto frame = next();
    if (!frame) {
      run.start_errno = -1;
      return run;
    }
    if (frame->channel != channel) continue;
    wire::Reader r(frame->payload);
    switch (frame->type) {
      case FromRunner::kStdout:
        run.out += frame->payload;
        break;
      case FromRunner::kStderr:
        run.err += frame->payload;
        break;
      case FromRunner::kStdinTaken:
        run.stdin_taken += r.u32();
        break;
      case FromRunner::kStartFailed:
        run.start_errno = static_cast<int>(r.u32());
        return run;
      case FromRunner::kExited:
        run.signaled = r.u8() == 1;
        run.code = r.u32();
        r.u64();
        r.u64();
        r.u64();
        run.reaped = r.u32();
        r.u64();
        r.u64();
        if (!r.done()) run.start_errno = -2;
        return run;
      default:
        break;
    }
  }
}

Ended Jail::run(const std::vector<std::string>& argv) {
  startProgram(1, argv, wire::kStartKillRest);
  return finish(1);
}

void Jail::file(std::string_view path, std::string_view content, uint32_t mode) {
  char buffer[8192];
  wire::Writer w(buffer, sizeof buffer);
  w.bytes(path);
  w.u32(mode);
  w.u64(content.size());
  send(ToRunner::kFile, 0, w.view());
  for (; !content.empty(); content.remove_prefix(std::min<size_t>(content.size(), 65'536)))
    send(ToRunner::kFileData, 0, content.substr(0, 65'536));
}

}  // namespace cloister::runner::testing
