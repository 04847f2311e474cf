// SPDX-License-Identifier: Apache-2.0
#include "linux/credentials.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include <grp.h>

#include "base/fd.h"
#include "linux/process.h"

namespace cloister::linux {
namespace {

// The kernel accepts a map only in a single write(2). `directory`: AT_FDCWD, or where `path` is.
Result<> writeOnce(const std::string& path, std::string_view text, int directory = AT_FDCWD) {
  const Fd fd(::openat(directory, path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd) return failErrno("opening " + path);
  if (::write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return failErrno("writing " + path);
  }
  return {};
}

std::string line(uint32_t inside, uint32_t outside, uint32_t count) {
  return std::to_string(inside) + " " + std::to_string(outside) + " " + std::to_string(count) +
         "\n";
}

}  // namespace

Result<> writeIdMaps(pid_t pid, std::span<const IdMap> maps, bool deny_setgroups) {
  const std::string path = "/proc/" + std::to_string(pid);
  const Fd process(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!process) return failErrno("opening " + path);
  return writeIdMapsIn(process.get(), maps, deny_setgroups);
}

Result<> writeIdMapsIn(int process, std::span<const IdMap> maps, bool deny_setgroups) {
  std::string text;
  for (const IdMap& map : maps)
    text += line(map.inside, map.outside, map.count);
  if (deny_setgroups) TRY(writeOnce("setgroups", "deny", process));
  TRY(writeOnce("uid_map", text, process));
  return writeOnce("gid_map", text, process);
}

Result<> mapSelf(uint32_t inside, uid_t uid, gid_t gid) {
  TRY(writeOnce("/proc/self/setgroups", "deny"));
  TRY(writeOnce("/proc/self/uid_map", line(inside, uid, 1)));
  return writeOnce("/proc/self/gid_map", line(inside, gid, 1));
}

Result<> becomeUser(uid_t uid, gid_t gid) {
  // EPERM: the namespace's setgroups is "deny", so that no process can drop an excluding group.
  if (::setgroups(0, nullptr) != 0 && errno != EPERM) return failErrno("setgroups");
  if (::setresgid(gid, gid, gid) != 0) return failErrno("setresgid");
  if (::setresuid(uid, uid, uid) != 0) return failErrno("setresuid");
  return {};
}

// setfsuid(2) returns only the previous id, so a second call checks the first.
Result<> OtherUser::become(uid_t other) {
  self_ = ::geteuid();
  securebits_ = ::prctl(PR_GET_SECUREBITS, 0, 0, 0, 0);
  // Changing the user id clears the capabilities and the parent-death signal, so keep the former
  // and save the latter.
  if (securebits_ < 0 || ::prctl(PR_GET_PDEATHSIG, &death_signal_) != 0 ||
      ::prctl(PR_SET_SECUREBITS, securebits_ | SECBIT_NO_SETUID_FIXUP, 0, 0, 0) != 0) {
    return failErrno("becoming another user: securebits");
  }
  if (::setresuid(self_, other, other) != 0) return failErrno("becoming another user: setresuid");
  ::setfsuid(self_);
  return ::setfsuid(self_) == static_cast<int>(self_)
             ? Result<>()
             : fail(Code::kInternal, "becoming another user: setfsuid");
}

Result<> OtherUser::leave() {
  if (::setresuid(self_, self_, self_) != 0 ||
      ::prctl(PR_SET_SECUREBITS, securebits_, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_PDEATHSIG, death_signal_) != 0) {
    return failErrno("becoming oneself again");
  }
  return {};
}

namespace {

Result<> dropBoundingSet(uint32_t keep = 0) {
  for (int cap = 0; ::prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; ++cap) {
    if ((uint64_t{keep} >> cap & 1) != 0) continue;
    // EPERM: the process never had CAP_SETPCAP. The bounding set then gains nothing once
    // no_new_privs is set.
    if (::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0 && errno != EPERM) {
      return failErrno("dropping a capability from the bounding set");
    }
  }
  return {};
}

// Drops the held capabilities outside `keep`, and all inheritable and ambient ones.
Result<> leaveCapabilities(uint32_t keep) {
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) {
    return failErrno("clearing ambient capabilities");
  }
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3] = {};
  if (keep != 0 && ::syscall(SYS_capget, &header, held) != 0) return failErrno("capget");
  const uint32_t kept = held[0].permitted & keep;
  const __user_cap_data_struct left[_LINUX_CAPABILITY_U32S_3] = {{kept, kept, 0}, {}};
  if (::syscall(SYS_capset, &header, left) != 0) return failErrno("capset");
  return {};
}

}  // namespace

Result<> dropCapabilities(uint32_t keep) {
  TRY(dropBoundingSet());
  const unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                             SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                             SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (::prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) != 0 && errno != EPERM) {
    return failErrno("setting securebits");
  }
  return leaveCapabilities(keep);
}

Result<> keepCapabilities(uint32_t keep) {
  TRY(dropBoundingSet(keep));
  return leaveCapabilities(keep);
}

bool hasCapabilities(uint32_t wanted) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[_LINUX_CAPABILITY_U32S_3] = {};
  return ::syscall(SYS_capget, &header, held) == 0 && (held[0].effective & wanted) == wanted;
}

Result<> dropTo(uid_t uid, gid_t gid) {
  if (::geteuid() == 0) {
    TRY(dropBoundingSet());  // the new user has no permission for this
    TRY(becomeUser(uid, gid));
  }
  TRY(dropCapabilities());
  return setNoNewPrivs();
}

}  // namespace cloister::linux
