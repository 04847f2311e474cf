// SPDX-License-Identifier: Apache-2.0
#include "vmm/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string.h>

#include "base/fd.h"
#include "vmm/api.h"
#include "vmm/keep.h"
#include "vmm/relay.h"
#include "vmm/text.h"
#include "wire/frame.h"
#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::vmm {
namespace {

using Path = Text<sizeof(sockaddr_un::sun_path)>;
using Body = Text<4'096>;

constexpr unsigned kGuestCid = 3;  // the first permitted guest address (vsock(7))
// Bytes of the host's entropy in each period.
constexpr uint64_t kEntropyBytes = 64 << 10;
constexpr uint64_t kEntropyMillis = 1'000;

// Reports failure as a runner reports a failed start before any kHello, meaning the sandbox itself.
[[noreturn]] void refuse(const Fault& fault) {
  char frame[wire::kHeaderBytes + 2'048];
  wire::Writer payload(frame + wire::kHeaderBytes, sizeof frame - wire::kHeaderBytes);
  Fault text;
  text.add("starting the machine with Firecracker: ").shown(fault.view(), 900);
  payload.u32(0);
  payload.bytes(text.view());
  const auto size = static_cast<uint32_t>(payload.view().size());
  wire::encodeHeader(frame, static_cast<uint16_t>(wire::FromRunner::kStartFailed), 0, size);
  static_cast<void>(
      send(wire::kRunnerFd, frame, wire::kHeaderBytes + size, MSG_DONTWAIT | MSG_NOSIGNAL));
  _exit(1);
}

[[noreturn]] void refuseErrno(std::string_view doing) {
  const int error = errno;
  Fault fault;
  fault.add(doing).add(": ").add(strerror(error));
  refuse(fault);
}

Path below(const char* directory, std::string_view name) {
  Path path;
  path.add(directory).add("/").add(name);
  if (!path.full()) return path;
  errno = ENAMETOOLONG;
  refuseErrno("naming a socket");
}

// The socket to which Firecracker connects when the guest asks for the port (its docs/vsock.md).
Fd listenForGuest(const char* directory) {
  Path path = below(directory, "v.sock_");
  path.number(wire::guest::kVsockPort);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  strcpy(address.sun_path, path.c_str());
  Fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (path.full() || !listener ||
      bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener.get(), 1) != 0) {
    refuseErrno("listening for the guest");
  }
  return listener;
}

[[noreturn]] void becomeFirecracker(const char* program, Path& api, pid_t parent, int complaints) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 && getppid() == parent) {
    // Firecracker's errors and the guest's console share this process's output.
    execl(program, "firecracker", "--api-sock", api.c_str(), "--id", "cloister", "--level", "Error",
          static_cast<char*>(nullptr));
  }
  const int error = errno;
  static_cast<void>(write(complaints, &error, sizeof error));
  _exit(127);
}

struct Child {
  pid_t pid;
  Fd process;  // a pidfd
};

Child startFirecracker(const char* program, Path& api) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) refuseErrno("pipe2");
  const Fd complaints(ends[0]);
  Fd theirs(ends[1]);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) refuseErrno("fork");
  if (pid == 0) becomeFirecracker(program, api, parent, theirs.get());
  theirs.reset();
  int error = 0;
  if (read(complaints.get(), &error, sizeof error) == sizeof error) {
    errno = error;
    refuseErrno("executing Firecracker");
  }
  Child child{pid, Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)))};
  if (!child.process) refuseErrno("pidfd_open");
  return child;
}

bool request(Api& api, std::string_view method, std::string_view path, const Body& body,
             Fault& fault) {
  if (!body.full()) return api.request(method, path, body.view(), fault);
  fault.add(method).add(" ").add(path).add(": it is too long");
  return false;
}

void put(Api& api, std::string_view path, const Body& body) {
  Fault fault;
  if (!request(api, "PUT", path, body, fault)) refuse(fault);
}

// In the required order: the machine last.
void makeMachine(Api& api, const Orders& orders, Path& vsock) {
  Body machine;
  machine.add(R"({"vcpu_count":)").add(orders.cpus);
  machine.add(R"(,"mem_size_mib":)").add(orders.mebibytes).add("}");
  put(api, "/machine-config", machine);
  Body boot;
  boot.add(R"({"kernel_image_path":)").quoted(orders.kernel);
  boot.add(R"(,"initrd_path":)").quoted(orders.initrd);
  boot.add(R"(,"boot_args":)").quoted(orders.boot).add("}");
  put(api, "/boot-source", boot);
  Body disk;  // no root device, for which Firecracker would add kernel parameters
  disk.add(R"({"drive_id":"root","is_root_device":false,"is_read_only":true,"path_on_host":)");
  disk.quoted(orders.disk).add("}");
  put(api, "/drives/root", disk);
  Body guest;
  guest.add(R"({"guest_cid":)").number(kGuestCid);
  guest.add(R"(,"uds_path":)").quoted(vsock.view()).add("}");
  put(api, "/vsock", guest);
  if (orders.interface != nullptr) {
    Body link;
    link.add(R"({"iface_id":"eth0","host_dev_name":)").quoted(orders.interface);
    link.add(R"(,"guest_mac":)").quoted(orders.ethernet).add("}");
    put(api, "/network-interfaces/eth0", link);
  }
  Body entropy;
  entropy.add(R"({"rate_limiter":{"bandwidth":{"size":)").number(kEntropyBytes);
  entropy.add(R"(,"refill_time":)").number(kEntropyMillis).add("}}}");
  put(api, "/entropy", entropy);
  Body start;
  start.add(R"({"action_type":"InstanceStart"})");
  put(api, "/actions", start);
}

// A resumed machine has all devices of the saved machine: its vsock at the same path, its disk by
// the same descriptor, its network link by the same name.
void becomeMachine(Api& api, const Orders& orders) {
  Body load;
  load.add(R"({"snapshot_path":)").quoted(orders.state);
  load.add(R"(,"mem_backend":{"backend_type":"File","backend_path":)").quoted(orders.memory);
  load.add(R"(},"resume_vm":true})");
  put(api, "/snapshot/load", load);
}

bool keepMachine(Api& api, const Orders& orders, Fault& fault) {
  Body pause;
  pause.add(R"({"state":"Paused"})");
  Body create;
  create.add(R"({"snapshot_type":"Full","snapshot_path":)").quoted(orders.state);
  create.add(R"(,"mem_file_path":)").quoted(orders.memory).add("}");
  return request(api, "PATCH", "/vm", pause, fault) &&
         request(api, "PUT", "/snapshot/create", create, fault);
}

Fault endOf(const Child& firecracker) {
  int status = 0;
  static_cast<void>(waitpid(firecracker.pid, &status, 0));
  Fault fault;
  const bool killed = WIFSIGNALED(status);
  fault.add(killed ? "it was ended by signal " : "it ended with status ");
  fault.number(static_cast<uint64_t>(killed ? WTERMSIG(status) : WEXITSTATUS(status)));
  return fault;
}

// Accepts the guest's first connection, which is pid 1's. No later connection is accepted. The node
// limits the time by closing its connection.
Fd waitForGuest(const Fd& listener, const Child& firecracker) {
  for (;;) {
    pollfd events[] = {{listener.get(), POLLIN, 0},
                       {firecracker.process.get(), POLLIN, 0},
                       {wire::kRunnerFd, POLLRDHUP, 0}};
    if (poll(events, 3, -1) <= 0) continue;
    if (events[2].revents != 0) _exit(0);
    if (events[0].revents != 0) {
      Fd guest(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (guest) return guest;
    }
    if (events[1].revents != 0) break;
  }
  Fault fault = endOf(firecracker);
  refuse(fault.add(" before the guest spoke"));
}

bool hasSpoken(const Fd& guest) {
  char byte;
  return recv(guest.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

// Whether the connection is the guest's last: it is if the guest sends data, and is not if the
// connection ends or another follows.
bool staysWith(const Fd& guest, const Fd& listener, const Child& firecracker) {
  pollfd events[] = {{guest.get(), POLLIN, 0},
                     {listener.get(), POLLIN, 0},
                     {firecracker.process.get(), POLLIN, 0},
                     {wire::kRunnerFd, POLLRDHUP, 0}};
  while (poll(events, 4, -1) <= 0) {
  }
  if (events[3].revents != 0) _exit(0);
  return hasSpoken(guest);
}

// A resumed guest connects repeatedly until woken, since its transport may be reset meanwhile
// (Firecracker's docs/snapshotting). The node's first message is sent on each of its connections.
// The connection with an answer is kept.
Fd wakeGuest(const Fd& listener, const Child& firecracker) {
  char wake[wire::kHeaderBytes + wire::guest::kWakeBytes];
  if (recv(wire::kRunnerFd, wake, sizeof wake, MSG_WAITALL) != static_cast<ssize_t>(sizeof wake)) {
    _exit(0);
  }
  for (;;) {
    Fd guest = waitForGuest(listener, firecracker);
    if (send(guest.get(), wake, sizeof wake, MSG_NOSIGNAL) < 0) continue;
    if (!staysWith(guest, listener, firecracker)) continue;
    explicit_bzero(wake, sizeof wake);
    return guest;
  }
}

// The guest has sent its runner's first frame, and closed the connection. The guest's end is also
// the driver's, saved or not.
[[noreturn]] void keepWhenTold(Api& api, const Orders& orders, const Child& firecracker) {
  pollfd events[] = {{orders.socket, POLLIN, 0},
                     {firecracker.process.get(), POLLIN, 0},
                     {wire::kRunnerFd, POLLRDHUP, 0}};
  while (poll(events, 3, -1) <= 0) {
  }
  if (events[2].revents != 0 || (events[0].revents != 0 && !takeOrder(orders.socket))) _exit(0);
  Fault fault;
  if (events[1].revents != 0) {
    fault = endOf(firecracker);
    answerOrder(orders.socket, &fault);
  } else if (!keepMachine(api, orders, fault)) {
    answerOrder(orders.socket, &fault);
  } else {
    dropEmptyPages(orders.memory);
    answerOrder(orders.socket, nullptr);
  }
  _exit(0);
}

}  // namespace

void drive(const Orders& orders) {
  static_cast<void>(fcntl(wire::kRunnerFd, F_SETFD, FD_CLOEXEC));
  if (orders.socket >= 0) static_cast<void>(fcntl(orders.socket, F_SETFD, FD_CLOEXEC));
  Path api_path = below(orders.sockets, "api.sock");
  Path vsock_path = below(orders.sockets, "v.sock");
  Fd listener = listenForGuest(orders.sockets);
  const Child firecracker = startFirecracker(orders.firecracker, api_path);
  Fault fault;
  Api api;
  if (!api.connect(api_path.c_str(), firecracker.process.get(), fault)) refuse(fault);
  const bool as_kept = orders.begins == Begins::kAsKept;
  if (as_kept) {
    becomeMachine(api, orders);
  } else {
    makeMachine(api, orders, vsock_path);
  }
  const Fd guest = as_kept ? wakeGuest(listener, firecracker) : waitForGuest(listener, firecracker);
  listener.reset();
  relay(wire::kRunnerFd, guest.get());
  if (orders.begins == Begins::kToBeKept) keepWhenTold(api, orders, firecracker);
  // The end of this process ends the other: if this is pid 1 for that reason, else by the
  // parent-death signal.
  _exit(0);
}

}  // namespace cloister::vmm
