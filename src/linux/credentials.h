// SPDX-License-Identifier: Apache-2.0
// A process's credentials: user and group ids, capabilities, and the id maps of user namespaces.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace cloister::linux {

// A line of a uid_map and gid_map; user_namespaces(7). Both maps get the same numbers.
struct IdMap {
  uint32_t inside = 0;
  uint32_t outside = 0;  // in the parent user namespace
  uint32_t count = 0;

  friend bool operator==(const IdMap&, const IdMap&) = default;
};

// Writes /proc/PID/uid_map and gid_map of a process in a user namespace just made. With
// `deny_setgroups` first writes "deny" to setgroups, which an unprivileged writer must.
Result<> writeIdMaps(pid_t pid, std::span<const IdMap> maps, bool deny_setgroups);
// The same through an open directory of /proc (O_PATH): also of a /proc that is mounted nowhere.
Result<> writeIdMapsIn(int process, std::span<const IdMap> maps, bool deny_setgroups);
// The same for the calling process, as the single id `inside`, for its present uid and gid.
Result<> mapSelf(uint32_t inside, uid_t uid, gid_t gid);

// setresgid(2), setresuid(2); groups are cleared with setgroups(2) where the namespace permits it.
// Keeps capabilities when no id 0 is involved (capabilities(7), "Effect of user ID changes").
Result<> becomeUser(uid_t uid, gid_t gid);

// The user to be while making user namespaces for another user. The kernel counts a namespace's
// resources, such as instances and watches of inotify(7), for its owner as well (namespaces(7),
// /proc/sys/user), and an owner at the limit gets no more anywhere. Effective and saved user id
// become the other's. The real id (for counting processes), the file system id and all capabilities
// stay. For a single-threaded process.
class OtherUser {
 public:
  // Needs CAP_SETUID and CAP_SETPCAP.
  Result<> become(uid_t other);
  // Call only after a successful become(), in the same process and not in a clone. A failure leaves
  // the process between both users.
  Result<> leave();

 private:
  uid_t self_ = 0;
  int securebits_ = 0;
  int death_signal_ = 0;
};

// Empties all capability sets, including the bounding and ambient sets, and locks the securebits so
// that no id regains capabilities. Held capabilities in `keep` (a bit 1 << CAP_* each) stay usable
// by this process; no executed program inherits any.
Result<> dropCapabilities(uint32_t keep = 0);

// Drops all capabilities but `keep` (bits as above) from every set. Unlike after
// dropCapabilities(), a program that root executes later has the capabilities in `keep`. A process
// without CAP_SETPCAP keeps its bounding set, so the caller must also set no_new_privs.
Result<> keepCapabilities(uint32_t keep);

// Whether the calling process has all of these capabilities in its user namespace (bits as above).
bool hasCapabilities(uint32_t wanted);

// Drops all of root for a service: becomeUser, dropCapabilities, no_new_privs. For a caller other
// than root, only drops the capabilities and sets no_new_privs.
Result<> dropTo(uid_t uid, gid_t gid);

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
};

}  // namespace cloister::linux
