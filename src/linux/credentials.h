// SPDX-License-Identifier: Apache-2.0
// Who a process is: user and group ids, capabilities, and the id maps of user namespaces.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"

namespace cloister::linux {

// One line of a uid_map and gid_map; user_namespaces(7). The same numbers serve both.
struct IdMap {
  uint32_t inside = 0;
  uint32_t outside = 0;  // in the parent user namespace
  uint32_t count = 0;

  friend bool operator==(const IdMap&, const IdMap&) = default;
};

// Writes /proc/PID/uid_map and gid_map of a process in a user namespace just made. With
// `deny_setgroups` first writes "deny" to setgroups, which an unprivileged writer must.
Result<> writeIdMaps(pid_t pid, std::span<const IdMap> maps, bool deny_setgroups);
// The same for the calling process, as the single id `inside`, for its present uid and gid.
Result<> mapSelf(uint32_t inside, uid_t uid, gid_t gid);

// setresgid(2), setresuid(2); groups are cleared with setgroups(2) where the namespace permits it.
// Keeps capabilities when no id 0 is involved (capabilities(7), "Effect of user ID changes").
Result<> becomeUser(uid_t uid, gid_t gid);

// What a process is while it makes user namespaces that belong to another user: the kernel counts
// what there is in a namespace, as instances and watches of inotify(7), for its owner as well
// (namespaces(7), /proc/sys/user), and who has the most of it gets no more anywhere. Effective and
// saved user id are the other's; the real one, by which processes are counted, and that by which
// files are opened and made stay, and so do all capabilities. For a process with one thread.
class OtherUser {
 public:
  // Needs CAP_SETUID and CAP_SETPCAP.
  Result<> become(uid_t other);
  // After become() alone, and by who became, not by what was cloned meanwhile. A failure leaves a
  // process that is neither.
  Result<> leave();

 private:
  uid_t self_ = 0;
  int securebits_ = 0;
  int death_signal_ = 0;
};

// Empties every capability set, the bounding and the ambient set too, and locks the securebits so
// that no id regains them. What is in `keep` (a bit 1 << CAP_* for each) and held stays usable by
// this process; no program that it executes gets it.
Result<> dropCapabilities(uint32_t keep = 0);

// All of it, for a service that gives up root: becomeUser, dropCapabilities, no_new_privs. When the
// caller is not root, only the capabilities and no_new_privs.
Result<> dropTo(uid_t uid, gid_t gid);

struct User {
  uid_t uid = 0;
  gid_t gid = 0;
};
// getpwnam(3); nullopt when there is no such user.
std::optional<User> findUser(const std::string& name);

}  // namespace cloister::linux
