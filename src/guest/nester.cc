// SPDX-License-Identifier: Apache-2.0
#include "guest/nester.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string.h>

#include "base/fd.h"
#include "guest/machine.h"
#include "guest/relay.h"
#include "guest/sandbox.h"
#include "wire/guest.h"

namespace cloister::guest {
namespace {

constexpr size_t kMostParameters = 16;

struct Request {
  char parameters[wire::guest::kMaxParameters];
  size_t size = 0;
  Fd stream;
};
Request the_request;
char* the_environment[kMostParameters + 1];
Sandbox the_sandbox;
pid_t the_holders[wire::guest::kMostWithin];  // each holds a sandbox; 0: a free slot
bool something_ended = true;

void onChild(int /*signal*/) {
  something_ended = true;
}

// Only a stream socket is safe: this process writes to the descriptor with its own rights.
bool isStream(int fd) {
  int domain = 0;
  int type = 0;
  socklen_t size = sizeof domain;
  socklen_t size_too = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX &&
         getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size_too) == 0 && type == SOCK_STREAM;
}

// Closes all descriptors if there are several, for which the message may have room.
void takeStream(const cmsghdr* header, Request& request) {
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
    return;
  }
  const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  for (size_t i = 0; i < count; ++i) {
    int fd = -1;
    memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
    Fd one(fd);
    if (count == 1 && isStream(fd)) request.stream = static_cast<Fd&&>(one);
  }
}

// False after the end of requests. A malformed request has no stream.
bool receive(int socket, Request& request) {
  request.stream.reset();
  iovec bytes{request.parameters, sizeof request.parameters};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR;
  takeStream(CMSG_FIRSTHDR(&message), request);
  request.size = static_cast<size_t>(n);
  return n > 0;
}

// The request's parameters become this process's environment.
void takeParameters(Request& request) {
  constexpr char kPrefix[] = "cloister_";
  size_t count = 0;
  char* const end = request.parameters + request.size;
  for (char* at = request.parameters; at < end;) {
    char* const stop = static_cast<char*>(memchr(at, '\0', static_cast<size_t>(end - at)));
    if (stop == nullptr || count == kMostParameters ||
        strncmp(at, kPrefix, sizeof kPrefix - 1) != 0) {
      powerOff("malformed parameters");
    }
    the_environment[count++] = at;
    at = stop + 1;
  }
  environ = the_environment;
  // Reads all parameters now, while a failure ends no sandbox.
  for (const char* each :
       {wire::guest::kMemory, wire::guest::kCpus, wire::guest::kPids, wire::guest::kScratch,
        wire::guest::kInodes, wire::guest::kNoExec, wire::guest::kWrites, wire::guest::kShares}) {
    static_cast<void>(parameter(each));
  }
}

// Holds an inner sandbox from its start to its end.
[[noreturn]] void hold(const Ground& ground, int socket, unsigned number, pid_t first) {
  close(socket);
  signal(SIGCHLD, SIG_DFL);
  endAlone(the_request.stream.get());
  takeParameters(the_request);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) giveUp("socketpair");
  const Fd ours(ends[0]);
  the_sandbox.start(ground,
                    {.number = number, .runner = Fd(ends[1]), .nester = Fd(), .first = first});
  endWith(the_sandbox.runner());
  signal(SIGPIPE, SIG_IGN);  // the requester may no longer read, and the sandbox must end properly
                             // all the same
  relay(the_sandbox, ours.get(), the_request.stream.get());
  the_request.stream.reset();
  the_sandbox.end();
  _exit(0);
}

// The entry of a process that holds a sandbox. This process also inherits other children.
pid_t* holder(pid_t pid) {
  for (pid_t& each : the_holders) {
    if (each == pid) return &each;
  }
  return nullptr;
}

// Reaps ended children. After the end of `runner`, this process ends.
void reap(pid_t runner) {
  while (something_ended) {
    something_ended = false;
    for (pid_t pid; (pid = waitpid(-1, nullptr, WNOHANG)) > 0;) {
      if (pid == runner) _exit(0);
      if (pid_t* const held = holder(pid)) *held = 0;
    }
  }
}

}  // namespace

void serveNester(const Ground& ground, int socket, pid_t runner) {
  struct sigaction action{};
  action.sa_handler = onChild;
  sigaction(SIGCHLD, &action, nullptr);
  sigset_t child;
  sigset_t open;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &open);
  for (unsigned number = 0;;) {
    reap(runner);
    pollfd one{socket, POLLIN, 0};
    if (ppoll(&one, 1, nullptr, &open) < 0) continue;
    if (!receive(socket, the_request)) break;
    if (!the_request.stream) continue;
    pid_t* const place = holder(0);
    ++number;
    const pid_t pid = place != nullptr ? fork() : -1;
    if (pid == 0) {
      sigprocmask(SIG_SETMASK, &open, nullptr);
      hold(ground, socket, number == 0 ? 1 : number, runner);
    }
    if (pid > 0) *place = pid;
    the_request.stream.reset();  // a requester without a sandbox sees the end of its stream
  }
  // The runner has ended. Its end, or the machine's, also ends the processes started here.
  while (waitpid(runner, nullptr, 0) < 0 && errno == EINTR) {
  }
  _exit(0);
}

}  // namespace cloister::guest
