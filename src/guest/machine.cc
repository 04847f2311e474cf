// SPDX-License-Identifier: Apache-2.0
#include "guest/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/network.h"
#include "guest/walls.h"
#include "wire/frame.h"
#include "wire/guest.h"
#include "wire/runner.h"

namespace cloister::guest {
namespace {

constexpr size_t kMaxModules = 64;
// Pause between looks for a device, and number of looks: half a minute, for an emulated machine.
constexpr useconds_t kPause = 2'000;
constexpr int kLooks = 15'000;
constexpr int kLinger = 2;  // seconds
// For a machine that waits for a wake-up, in microseconds. A request to the host during the saving
// is never answered.
constexpr useconds_t kPauseAgain = 5'000;
constexpr suseconds_t kPatienceAgain = 50'000;

void say(const char* text) {
  static const int console = open("/dev/console", O_WRONLY | O_NOCTTY | O_CLOEXEC);
  if (console >= 0) static_cast<void>(write(console, text, strlen(text)) >= 0);
}

int the_stream = -1;
pid_t the_sandbox = -1;

[[noreturn]] void tellAndExit(const char* why) {
  char frame[wire::kHeaderBytes + 256];
  wire::Writer payload(frame + wire::kHeaderBytes, sizeof frame - wire::kHeaderBytes);
  payload.u32(0);
  payload.bytes(why != nullptr ? why : "");
  const auto size = static_cast<uint32_t>(payload.view().size());
  wire::encodeHeader(frame, static_cast<uint16_t>(wire::FromRunner::kStartFailed), 0, size);
  static_cast<void>(send(the_stream, frame, wire::kHeaderBytes + size, MSG_NOSIGNAL) >= 0);
  if (the_sandbox > 0) kill(the_sandbox, SIGKILL);
  _exit(1);
}

void mountNew(const char* type, const char* target, unsigned long flags, const char* options) {
  static_cast<void>(mkdir(target, 0755));
  if (mount(type, target, type, flags, options) != 0) giveUp("mounting a file system");
}

struct Names {
  size_t count = 0;
  char name[kMaxModules][NAME_MAX + 1];
};
Names the_modules;  // in order

void insert(const char* name) {
  if (the_modules.count == kMaxModules) powerOff("too many modules");
  size_t at = the_modules.count++;
  for (; at > 0 && strcmp(the_modules.name[at - 1], name) > 0; --at)
    strcpy(the_modules.name[at], the_modules.name[at - 1]);
  strcpy(the_modules.name[at], name);
}

// The path of the first device whose name begins so. Drivers find their devices in their own time.
const char* waitFor(const char* begin) {
  static char path[NAME_MAX + 8];
  for (int look = 0; look < kLooks; ++look) {
    DIR* listing = opendir("/dev");
    if (listing == nullptr) giveUp("looking for devices");
    while (const dirent* entry = readdir(listing)) {
      if (strncmp(entry->d_name, begin, strlen(begin)) != 0) continue;
      snprintf(path, sizeof path, "/dev/%s", entry->d_name);
      closedir(listing);
      return path;
    }
    closedir(listing);
    usleep(kPause);
  }
  powerOff(begin);
}

// A mount in either case, for enterRoot() to move.
void mountRoot() {
  constexpr unsigned long kFlags = MS_RDONLY | MS_NOSUID | MS_NODEV;
  if (getenv(wire::guest::kShown) != nullptr) {
    if (mount(kRoot, kRoot, nullptr, MS_BIND | MS_REC, nullptr) != 0 ||
        mount(nullptr, kRoot, nullptr, MS_REMOUNT | MS_BIND | kFlags, nullptr) != 0) {
      giveUp("taking the root that is shown");
    }
    return;
  }
  const char* disk = waitFor(wire::guest::kDisk);
  static_cast<void>(mkdir(kRoot, 0755));
  if (mount(disk, kRoot, "squashfs", kFlags, nullptr) != 0) giveUp("mounting the image");
}

}  // namespace

void endAlone(int stream) {
  the_stream = stream;
}

void endWith(pid_t sandbox) {
  the_sandbox = sandbox;
}

void powerOff(const char* why) {
  if (the_stream >= 0) tellAndExit(why);
  if (why != nullptr) {
    say("guest: ");
    say(why);
    say("\n");
  }
  reboot(RB_AUTOBOOT);  // ends the machine: the VMM does not start the machine again
  _exit(1);
}

void giveUp(const char* doing) {
  const int error = errno;
  if (the_stream >= 0) {
    static char text[128];
    snprintf(text, sizeof text, "%s: %s", doing, strerror(error));
    tellAndExit(text);
  }
  say("guest: ");
  say(doing);
  say(": ");
  powerOff(strerror(error));
}

void writeText(const char* path, const char* text) {
  const Fd file(open(path, O_WRONLY | O_CLOEXEC));
  const auto size = static_cast<ssize_t>(strlen(text));
  if (!file || write(file.get(), text, strlen(text)) != size) giveUp(path);
}

uint64_t parameter(const char* name) {
  const char* text = getenv(name);
  char* end = nullptr;
  errno = 0;
  const uint64_t value = text != nullptr ? strtoull(text, &end, 10) : 0;
  if (text == nullptr || end == text || *end != '\0' || errno != 0) powerOff(name);
  return value;
}

void loadModules(const char* directory) {
  the_modules.count = 0;
  DIR* listing = opendir(directory);
  if (listing == nullptr) giveUp("looking for modules");
  while (const dirent* entry = readdir(listing)) {
    if (entry->d_name[0] != '.') insert(entry->d_name);
  }
  for (size_t i = 0; i < the_modules.count; ++i) {
    const Fd module(openat(dirfd(listing), the_modules.name[i], O_RDONLY | O_CLOEXEC));
    if (!module || syscall(SYS_finit_module, module.get(), "", 0) != 0) {
      giveUp("loading a module");
    }
  }
  closedir(listing);
}

void prepareMachine() {
  umask(022);
  if (chdir("/") != 0) giveUp("entering /");
  mountNew("devtmpfs", "dev", MS_NOSUID | MS_NOEXEC, nullptr);
  mountNew("proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  loadModules(wire::guest::kModules);
  mountNew("cgroup2", "cgroup", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr);
  // No part of the first root may be writable.
  mountNew("tmpfs", "run", MS_NOSUID | MS_NODEV, "mode=755");
  makeMasks();
  if (mkdir(kScratchPlace, 0755) != 0) giveUp(kScratchPlace);
  // Programs reserve more memory than they use, and the machine is hardly larger than their limit.
  writeText("/proc/sys/vm/overcommit_memory", "1");
  // No program may hard-link a foreign file, which might later be opened to the program.
  writeText("/proc/sys/fs/protected_hardlinks", "1");
  prepareNetwork();
  mountRoot();
}

namespace {

// The device's name appears a moment before the device can be opened.
Fd openVirtioPort() {
  const char* path = waitFor(wire::guest::kPort);
  for (int look = 0; look < kLooks; ++look) {
    Fd port(open(path, O_RDWR | O_CLOEXEC));
    if (port) return port;
    if (errno != ENXIO) break;
    usleep(kPause);
  }
  giveUp("opening the port");
}

// The driver finds its device in its own time, and until then there is no way to the host.
bool mayComeYet(int error) {
  return error == ENODEV || error == ENETUNREACH || error == ENETDOWN;
}

// No descriptor, with errno, if no peer accepts. `patience`: in microseconds; 0: the kernel's.
Fd connectVsock(suseconds_t patience) {
  sockaddr_vm host{};
  host.svm_family = AF_VSOCK;
  host.svm_cid = VMADDR_CID_HOST;
  host.svm_port = static_cast<unsigned>(parameter(wire::guest::kVsock));
  if (host.svm_port == 0 || host.svm_port == VMADDR_PORT_ANY) powerOff(wire::guest::kVsock);
  Fd port(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!port) giveUp("making a vsock socket");
  // SO_LINGER: close(2) waits until the last bytes are sent.
  const linger wait{1, kLinger};
  const timeval until{0, patience};
  if (setsockopt(port.get(), SOL_SOCKET, SO_LINGER, &wait, sizeof wait) != 0 ||
      setsockopt(port.get(), AF_VSOCK, SO_VM_SOCKETS_CONNECT_TIMEOUT, &until, sizeof until) != 0) {
    giveUp("setting up a vsock socket");
  }
  if (connect(port.get(), reinterpret_cast<const sockaddr*>(&host), sizeof host) == 0) return port;
  return {};
}

}  // namespace

bool connectsToNode() {
  return getenv(wire::guest::kVsock) != nullptr;
}

Fd openPort() {
  if (!connectsToNode()) return openVirtioPort();
  for (int look = 0; look < kLooks; ++look) {
    Fd port = connectVsock(0);
    if (port) return port;
    if (!mayComeYet(errno)) break;
    usleep(kPause);
  }
  giveUp("connecting to the host's vsock port");
}

Fd reopenPort(Fd port) {
  do {
    port.reset();
    usleep(kPauseAgain);
    port = connectVsock(kPatienceAgain);
  } while (!port);
  return port;
}

}  // namespace cloister::guest
